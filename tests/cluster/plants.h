// SPDX-License-Identifier: Apache-2.0
// Plants: deliberate bugs, by which the simulation shows that it finds such bugs. A plant is a switch in the code
// (model/defect.h) at a place where that defect was mended, or a decorator around a part of a server.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "job/gate.h"
#include "model/defect.h"
#include "rpc/service.h"
#include "server/meta/core/parts.h"
#include "trove/bytestream.h"
#include "trove/keyval.h"
#include "trove/kvsim/sim_keyval.h"

namespace spate::cluster {

/// `spate-sim --list-plants` tells what each one breaks.
enum class Plant : std::uint8_t {
  kNone,
  kUnreplicatedReply,
  kLeaseTooLong,
  kEpochIgnored,
  kAnswerForgottenByBackups,
  kRecordsOutliveCut,
  kSkippedFsync,
  kForgottenAnswer,
  kStaleResend,
  kLostFence,
  kRenameLoop,
  kFalseFence,
  kForgottenRecall,
  kEndlessIntent,
  kWildClock,
  kHoardedPlaces,
  kSmallSize,
  kUnsyncedLog,
  kForgottenLoss,
  kOwnFsync,
  kHarshRenewal,
  kKeptPages,
  kLateLock,
  kExpiredChange,
  kStuckOpens,
  kShortGrace,
  kHastyClaim,
  kLateCut,
  kForgottenError,
  kSplitWrite,
  kEndlessStrangers,
  kEarlySlot,
  kForgottenServer,
  kUnfencedServer,
  kEarlyServer,
  kOpenAfterChange,
  kPartAsSize,
  kGatherAfterRecall,
  kEarlyGiveBack,
};

std::string_view name(Plant plant);
/// One line about the effect of the plant.
std::string_view what_breaks(Plant plant);
std::optional<Plant> plant_by_name(std::string_view text);
/// All plants except kNone.
std::vector<Plant> all_plants();
/// The switch in the code, or Defect::kNone if the plant is a decorator.
Defect defect_of(Plant plant);

trove::SimKeyvalOptions store_options(Plant plant);
/// These return null if the plant is not about that part. The wrapped object outlives the wrapper.
std::unique_ptr<trove::Keyval> plant_in_keyval(Plant plant, trove::Keyval& inner);
std::unique_ptr<trove::Bytestreams> plant_in_bytestreams(Plant plant, trove::Bytestreams& inner);
/// `others` makes an IoServers that knows only the servers of spate.toml.
std::unique_ptr<meta::IoServers> plant_in_io_servers(Plant plant, meta::IoServers& inner,
                                                     const std::function<std::unique_ptr<meta::IoServers>()>& others);
std::unique_ptr<meta::Leases> plant_in_leases(Plant plant, meta::Leases& inner);
std::unique_ptr<rpc::Service> plant_in_meta_service(Plant plant, rpc::Service& inner, job::Executor& executor);
std::unique_ptr<rpc::Service> plant_in_io_service(Plant plant, rpc::Service& inner, job::Executor& executor,
                                                  job::Gate& gate);

/// The decorators of kHarshRenewal and kForgottenError.
std::unique_ptr<rpc::Service> make_harsh_service(rpc::Service& inner);
std::unique_ptr<rpc::Service> make_forgetful_service(rpc::Service& inner);

}  // namespace spate::cluster
