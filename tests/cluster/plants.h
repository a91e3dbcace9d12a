// SPDX-License-Identifier: Apache-2.0
// Plants: bugs on purpose, each a decorator around a part of a server, so that the simulation can show that it finds
// them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "job/gate.h"
#include "rpc/service.h"
#include "server/meta/core/parts.h"
#include "trove/bytestream.h"
#include "trove/keyval.h"
#include "trove/kvsim/sim_keyval.h"

namespace spate::cluster {

enum class Plant : std::uint8_t {
  kNone,
  kSkippedFsync,     // an io server says "durable" and has synced nothing
  kForgottenAnswer,  // the meta server does not write down what it answered: a resend is run again
  kStaleResend,      // a write that was sent again is carried out a second time, later
  kLostFence,        // a dead writer's session is given back without the io servers being told
  kRenameLoop,       // a rename looks at the next ancestors only
  kFalseFence,       // a silent holder goes on writing to the datafile itself
  kForgottenRecall,  // changes wait for nobody who keeps what they touch
  kEndlessIntent,    // a truncation that an io server refuses is tried again, for ever
  kWildClock,        // times of changes follow a wall clock that somebody has set
  kHoardedPlaces,    // a request that waits for others keeps its place, and goes on when its connection is gone
  kSmallSize,        // a write's reply tells the size from before another write that its change counter includes
  kUnsyncedLog,      // a store that is opened after a kill does not sync the log that it found
  kForgottenLoss,    // a client writes on in the next epoch as if its locks were not lost
  kOwnFsync,         // an fsync covers only what was written through the same open
  kHarshRenewal,     // while one file's capability is renewed, what the client has under way for others is ended
  kKeptPages,        // an open keeps pages of a file that is as large as it was
};

std::string_view name(Plant plant);
std::optional<Plant> plant_by_name(std::string_view text);

trove::SimKeyvalOptions store_options(Plant plant);
/// Each is null when the plant concerns something else. What is wrapped outlives the wrapper.
std::unique_ptr<trove::Keyval> plant_in_keyval(Plant plant, trove::Keyval& inner);
std::unique_ptr<trove::Bytestreams> plant_in_bytestreams(Plant plant, trove::Bytestreams& inner);
std::unique_ptr<meta::IoServers> plant_in_io_servers(Plant plant, meta::IoServers& inner);
std::unique_ptr<meta::Leases> plant_in_leases(Plant plant, meta::Leases& inner);
std::unique_ptr<rpc::Service> plant_in_meta_service(Plant plant, rpc::Service& inner, job::Executor& executor);
std::unique_ptr<rpc::Service> plant_in_io_service(Plant plant, rpc::Service& inner, job::Executor& executor,
                                                  job::Gate& gate);

/// Of kHarshRenewal.
std::unique_ptr<rpc::Service> make_harsh_service(rpc::Service& inner);

}  // namespace spate::cluster
