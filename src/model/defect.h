// SPDX-License-Identifier: Apache-2.0
// Defect: defects that were mended, each still there behind a switch, so that the simulation can show that it would
// find them (tests/cluster/plants.h). No program can turn one on.
#pragma once

#include <cstdint>

namespace spate {

/// Named by what goes wrong.
enum class Defect : std::uint8_t {
  kNone,
  kWriteAfterLoss,    // a client changes data in the next epoch of its session though its locks were lost with the last
  kFsyncOfOwnWrites,  // an fsync covers only what was written through the same open
  kLateLock,          // a lock is taken in the next epoch of the session and noted as lost with the last
  kWallClock,         // a client reckons the file system's time from a wall clock that somebody may set
  kExpiredChange,     // what an expired session had under way at the meta server is committed all the same
  kAllOrNoOpens,      // one damaged record of an open keeps everything that its session held
  kShortGrace,        // a meta server that was started again forgets earlier locks before their holder is fenced
  kHastyClaim,        // a session that claims its locks after a restart ends the wait for its earlier epochs
  kCutAfterRelease,   // the locks of a session pass on before its truncations are over
  kSplitDirectWrite,  // a write past the page cache lets its datafile's lock go between its blocks and its ends
  kEarlyReply,        // a reply goes out before all that it saw is replicated
  kEpochUnchecked,    // a member obeys whoever says that it leads, of whatever epoch
  kTakeOverUnasked,   // a member takes over without the coordinator's word
  kLongLease,         // a primary's lease is longer than the others wait
  kLogNotCut,         // entries that no other member has stay in a log
  kUnknownTailLeads,  // a member whose log may have lost its end takes over
  kAnswerNotShipped,  // answers of requests are missing in what other members receive
  kJoiningServes,     // a member that is still joining counts as one that serves
  kOpenAfterChange,   // an open for reading that a client has kept is used though the file was changed meanwhile
  kEarlySlot,         // a request gets a slot whose last request's call is not answered yet
  kForgottenServer,   // a meta server that is started again does not know the servers that were added
  kEarlyServer,       // a new io server takes clients before it knows which of them are fenced
};

/// The one that is turned on, by a test and before anything is running. Everything in the process has it.
inline Defect planted_defect = Defect::kNone;

inline bool planted(Defect defect) { return planted_defect == defect; }

}  // namespace spate
