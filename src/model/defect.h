// SPDX-License-Identifier: Apache-2.0
// Defect: bugs that were fixed, each still present behind a switch, so that the simulation can show that it would find
// them (tests/cluster/plants.h). No program can turn one on.
#pragma once

#include <cstdint>

namespace spate {

/// Each is named after its effect.
enum class Defect : std::uint8_t {
  kNone,
  kWriteAfterLoss,  // a client changes data in the next epoch of its session, although it lost its locks with the last
                    // one
  kFsyncOfOwnWrites,      // an fsync covers only writes through the same open
  kLateLock,              // a lock taken in the next epoch of the session is recorded as lost with the last one
  kWallClock,             // a client computes the file system's time from a wall clock, which may be set at any time
  kExpiredChange,         // a change of an expired session that was under way at the meta server is committed
  kAllOrNoOpens,          // one damaged record of an open prevents the release of everything that its session held
  kShortGrace,            // a restarted meta server drops earlier locks before their holder is fenced
  kHastyClaim,            // a session that reclaims its locks after a restart ends the wait for its earlier epochs
  kCutAfterRelease,       // the locks of a session pass to others before its truncations are over
  kSplitDirectWrite,      // a direct write releases its datafile's lock between its blocks and its edges
  kEarlyReply,            // a reply is sent before everything that it depends on is replicated
  kEpochUnchecked,        // a member accepts every message of a leader, whatever its epoch
  kTakeOverUnasked,       // a member takes over without the coordinator's consent
  kLongLease,             // a primary's lease is longer than the time that the others wait
  kLogNotCut,             // entries that no other member has stay in a log
  kUnknownTailLeads,      // a member takes over although its log may have lost its end
  kAnswerNotShipped,      // answers of requests are missing in the entries that other members receive
  kJoiningServes,         // a joining member counts as one that serves
  kOpenAfterChange,       // a client reuses a kept open for reading although the file was changed meanwhile
  kPartAsSize,            // the last of several writers to close reports as the file's size only what it knows itself
  kEarlySlot,             // a request gets a slot whose last request is not answered yet
  kForgottenServer,       // a restarted meta server does not know the servers that were added
  kEarlyServer,           // a new io server admits clients before it knows which of them are fenced
  kOwnCopyFirst,          // the primary of a data group changes its own copy before the others
  kReturnerForgotten,     // a returning member of a data group is not asked what it alone may have written
  kLogDroppedEarly,       // the change log of a data group is dropped before the members have synced what it names
  kFormerMemberBelieved,  // a member of a data group that was replaced keeps its notes, and becomes a member again
  kOldRecordBelieved,     // a member takes over a data group by an old record that the meta server has been given back
  kNotesNotSynced,        // an fsync does not make durable what the primary of a data group has noted of its changes
  kMinIgnored,            // changes are answered although fewer members serve than the group's record demands
  kFencesNotCopied,       // a returning member of a data group serves before it knows the fences of the meantime
  kGatherAfterRecall,     // a client gathers writes of a file whose lease was recalled
  kEarlyGiveBack,         // a client gives a lease back before it has sent what it has gathered under it
  kEarlyRead,             // a read is answered before what it has seen is replicated
  kUnknownIsNo,           // a change of a group's record whose outcome is unknown counts as not made
  kLateAcknowledgment,    // a member acknowledges its primary although it has asked for the primary's place
  kRecordsOutliveCut,     // a member whose log is cut keeps the records that the entries beyond the cut have written
  kClientsBuffers,        // forwarded changes need buffers that requests of clients may hold
  kOverlapsUnordered,     // changes of a data group that overlap are forwarded in any order
  kQueuedTwice,           // the number of the last queued change of a client is not recorded
  kCloseBeforeData,       // a queued close is sent before the data of the file
  kDataTakesTimes,        // data that waited for the creation of their file overwrite the time that was set meanwhile
  kUnrecalledByRead,      // a read does not recall the delegation of what it meets
  kSleeperLeads,          // a primary that serves alone stands still, and goes on without a look at the record
  kOtherHistoryBelieved,  // a member of a data group keeps copies that an operator has given up
  kEpochBeforeEnd,        // a member of a data group accepts an epoch before changes of the last one have ended
};

/// The defect that is turned on, for the whole process. A test sets it before anything runs.
inline Defect planted_defect = Defect::kNone;

inline bool planted(Defect defect) { return planted_defect == defect; }

}  // namespace spate
