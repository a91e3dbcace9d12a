// SPDX-License-Identifier: Apache-2.0
#include "server/io/registration.h"

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "server/io/store.h"
#include "wire/membership_messages.h"

namespace spate::io {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(30);  // a handshake takes several late round trips
constexpr Duration kFirstRetry = std::chrono::milliseconds(100);
constexpr Duration kLongestRetry = std::chrono::seconds(30);
constexpr std::uint32_t kFencesRoom = 4096 + wire::kMaxFences * (8 + 4);

}  // namespace

rpc::Identity identity_of(const RegistrationOptions& options, FsId fs) {
  rpc::Identity identity;
  identity.kind = wire::PeerKind::kServer;
  identity.fs = fs;
  identity.key = options.server_key;
  identity.policy = options.handshake;
  identity.server = options.self.id;
  identity.features = wire::kFeatureMirrors | wire::kFeatureRacks;
  identity.description = "io server " + std::to_string(options.self.id.value);
  return identity;
}

Registration::Registration(RegistrationOptions options, Parts& parts, job::NetworkContext& network, Random& random)
    : options_(std::move(options)),
      parts_(parts),
      identity_(identity_of(options_, parts.options.fs)),
      meta_(rpc::channel_to(options_.meta), network, identity_, random) {}

job::Task<void> Registration::run() {
  for (Duration pause = kFirstRetry;; pause = std::min(pause * 2, kLongestRetry)) {
    const auto registered = co_await register_once();
    if (registered || parts_.stopping.stopped()) co_return;
    SPATE_LOG("server", warn, "{}, will try again error={}",
              parts_.fences_known ? "not registered at the meta server"
                                  : "no client is let in before the meta server has answered",
              registered.error().message());
    const auto slept = co_await parts_.executor.sleep(pause, parts_.stopping);
    if (!slept) co_return;
  }
}

rpc::CallOptions Registration::call_options(std::uint32_t reply_room) const {
  rpc::CallOptions options;
  options.deadline = parts_.executor.now() + kDeadline;
  options.stop = parts_.stopping;
  options.priority = wire::Priority::kControl;
  options.reply_room = reply_room;
  return options;
}

job::Task<Result<void>> Registration::register_once() {
  wire::JoinServerRequest request;
  request.server = options_.self.id;
  request.urls = options_.self.urls;
  request.targets = options_.self.targets;
  const rpc::CallOptions options = call_options(rpc::CallOptions().reply_room);
  auto joined = co_await meta_.call<wire::JoinServerReply>(request, options);
  if (joined.code() == Errc::kNotSupported) {
    // The meta server has an earlier version, which knows only the servers in its spate.toml. It reports no fences
    // either.
    SPATE_LOG("server", info, "the meta server takes no servers while it runs: it knows those of its spate.toml");
    parts_.fences_known = true;
    co_return Result<void>();
  }
  if (!joined) co_return std::move(joined).error();
  if (!options_.self.rack.empty() && (meta_.features() & wire::kFeatureRacks) != 0) {
    request.targets.emplace_back();
    request.rack = options_.self.rack;
    joined = co_await meta_.call<wire::JoinServerReply>(request, options);
    if (!joined) co_return std::move(joined).error();
  }
  SPATE_LOG("server", info, "registered at the meta server map_version={}", joined->map_version);
  if (parts_.fences_known) co_return Result<void>();
  auto learned = co_await learn_fences();
  co_return learned;
}

job::Task<Result<void>> Registration::learn_fences() {
  std::size_t count = 0;
  wire::ListFencesRequest request;
  for (bool more = true; more;) {
    const rpc::CallOptions options = call_options(kFencesRoom);
    SPATE_CO_TRY(const wire::ListFencesReply page, co_await meta_.call<wire::ListFencesReply>(request, options));
    if (page.more && (page.fences.empty() || page.fences.back().client <= request.after))
      co_return Error(Errc::kProtocol, meta_.name() + " lists fences out of order");
    SPATE_CO_TRY(std::ignore, co_await store_fences(parts_, page.fences));
    count += page.fences.size();
    more = page.more;
    if (more) request.after = page.fences.back().client;
  }
  SPATE_CO_TRY(std::ignore, co_await store_fences_known(parts_));
  parts_.fences_known = true;
  SPATE_LOG("server", info, "clients are let in: the sessions that have ended are known fences={}", count);
  co_return Result<void>();
}

}  // namespace spate::io
