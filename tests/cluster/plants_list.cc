// SPDX-License-Identifier: Apache-2.0
// The list of all plants: names, what they break, and which ones are switches in the code.
#include <algorithm>
#include <array>

#include "tests/cluster/plants.h"

namespace spate::cluster {
namespace {

struct PlantRow {
  Plant plant = Plant::kNone;
  std::string_view name;
  std::string_view what;
  Defect defect = Defect::kNone;
};

constexpr std::array kRows = {
    PlantRow{Plant::kNone, "none", "nothing"},
    PlantRow{Plant::kUnreplicatedReply, "unreplicated-reply",
             "of several meta servers, the primary replies before its backups hold what it says (--meta)",
             Defect::kEarlyReply},
    PlantRow{Plant::kLeaseTooLong, "lease-too-long", "a primary answers when others may lead already (--meta)",
             Defect::kLongLease},
    PlantRow{Plant::kEpochIgnored, "epoch-ignored",
             "a meta server accepts every message of a primary, whatever its epoch (--meta)", Defect::kEpochUnchecked},
    PlantRow{Plant::kAnswerForgottenByBackups, "answer-not-shipped",
             "backups do not hold what clients were answered: a resend is run again (--meta)",
             Defect::kAnswerNotShipped},
    PlantRow{Plant::kRecordsOutliveCut, "records-outlive-cut",
             "a meta server whose log is cut keeps what the cut entries have written (--meta)",
             Defect::kRecordsOutliveCut},
    PlantRow{Plant::kSkippedFsync, "skipped-fsync", "an io server says \"durable\" and has synced nothing"},
    PlantRow{Plant::kForgottenAnswer, "forgotten-answer",
             "the meta server does not write down what it answered: a resend is run again"},
    PlantRow{Plant::kStaleResend, "stale-resend", "a write that was sent again is carried out a second time, later"},
    PlantRow{Plant::kLostFence, "lost-fence",
             "a dead writer's session is given back without the io servers being told"},
    PlantRow{Plant::kRenameLoop, "rename-loop", "a rename looks at the next ancestors only"},
    PlantRow{Plant::kFalseFence, "false-fence", "a silent holder of a lease goes on writing to the datafile itself"},
    PlantRow{Plant::kForgottenRecall, "forgotten-recall", "changes wait for nobody who keeps what they touch"},
    PlantRow{Plant::kEndlessIntent, "endless-intent",
             "a truncation that an io server refuses is tried again, for ever"},
    PlantRow{Plant::kWildClock, "wild-clock", "times of changes follow a client's wall clock that somebody has set",
             Defect::kWallClock},
    PlantRow{Plant::kHoardedPlaces, "hoarded-places",
             "a request that waits for others keeps its place, and goes on when its connection is gone"},
    PlantRow{Plant::kSmallSize, "small-size",
             "a write's reply tells the size from before another write that its change counter includes"},
    PlantRow{Plant::kUnsyncedLog, "unsynced-log",
             "a store that is opened after a kill does not sync the log that it found"},
    PlantRow{Plant::kForgottenLoss, "forgotten-loss",
             "a client writes on in the next epoch of its session as if its locks were not lost",
             Defect::kWriteAfterLoss},
    PlantRow{Plant::kOwnFsync, "own-fsync", "an fsync covers only what was written through the same open",
             Defect::kFsyncOfOwnWrites},
    PlantRow{Plant::kHarshRenewal, "harsh-renewal",
             "while one file's capability is renewed, what the client has under way for others is ended"},
    PlantRow{Plant::kKeptPages, "kept-pages", "an open keeps pages of a file that is as large as it was"},
    PlantRow{Plant::kLateLock, "late-lock", "a lock taken just after the session ran out is never released",
             Defect::kLateLock},
    PlantRow{Plant::kExpiredChange, "expired-change",
             "a change of an expired session is committed after its locks have passed on", Defect::kExpiredChange},
    PlantRow{Plant::kStuckOpens, "stuck-opens",
             "one damaged record of an open keeps everything else that its dead session held", Defect::kAllOrNoOpens},
    PlantRow{Plant::kShortGrace, "short-grace",
             "after a restart locks pass on before the epoch that held them is fenced", Defect::kShortGrace},
    PlantRow{Plant::kHastyClaim, "hasty-claim",
             "after a restart locks of an earlier epoch pass on when its session has claimed those of a later one",
             Defect::kHastyClaim},
    PlantRow{Plant::kLateCut, "late-cut", "a truncation is carried out after the locks of its session have passed on",
             Defect::kCutAfterRelease},
    PlantRow{Plant::kForgottenError, "forgotten-write-error", "an io server tells an error of write-back only once"},
    PlantRow{Plant::kSplitWrite, "split-write",
             "a truncation falls between the blocks and the ends of a write past the page cache",
             Defect::kSplitDirectWrite},
    PlantRow{Plant::kEndlessStrangers, "endless-strangers",
             "who has proved no key may stay for as long, and send as much, as it likes"},
    PlantRow{Plant::kEarlySlot, "early-slot",
             "a request gets a slot whose last answer the mount has not passed on: a repeated call is run again",
             Defect::kEarlySlot},
    PlantRow{Plant::kForgottenServer, "forgotten-server",
             "a meta server that is started again does not know the io servers that were added",
             Defect::kForgottenServer},
    PlantRow{Plant::kUnfencedServer, "unfenced-server",
             "sessions are fenced only at the io servers that were there when the meta server started"},
    PlantRow{Plant::kEarlyServer, "early-server",
             "an io server with an empty disk takes clients before it knows which of them are fenced",
             Defect::kEarlyServer},
    PlantRow{Plant::kOpenAfterChange, "open-after-change",
             "an open for reading that a client has kept is used though another client has changed the file",
             Defect::kOpenAfterChange},
    PlantRow{
        Plant::kPartAsSize, "part-as-size",
        "the last of several writers to close tells its own part as the file's size when it cannot ask for the rest",
        Defect::kPartAsSize},
    PlantRow{Plant::kGatherAfterRecall, "gather-after-recall",
             "a mount gathers writes of a file that another client is about to open", Defect::kGatherAfterRecall},
    PlantRow{Plant::kEarlyGiveBack, "early-give-back",
             "a mount gives back its lease on a file before the servers have what it has gathered",
             Defect::kEarlyGiveBack},
};

const PlantRow& row_of(Plant plant) {
  return *std::find_if(kRows.begin(), kRows.end(), [plant](const PlantRow& row) { return row.plant == plant; });
}

}  // namespace

std::string_view name(Plant plant) { return row_of(plant).name; }
std::string_view what_breaks(Plant plant) { return row_of(plant).what; }
Defect defect_of(Plant plant) { return row_of(plant).defect; }

std::vector<Plant> all_plants() {
  std::vector<Plant> plants;
  for (const PlantRow& row : kRows) {
    if (row.plant != Plant::kNone) plants.push_back(row.plant);
  }
  return plants;
}

std::optional<Plant> plant_by_name(std::string_view text) {
  const auto found = std::find_if(kRows.begin(), kRows.end(), [text](const PlantRow& row) { return row.name == text; });
  return found == kRows.end() ? std::nullopt : std::optional(found->plant);
}

}  // namespace spate::cluster
