// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/scene.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/checksum.h"

namespace spate::cluster {

void Journal::note(std::string_view line) {
  const auto us = world_.now().since_start.count() / 1000;
  std::string text = fmt::format("{:>6}.{:06} {}", us / 1'000'000, us % 1'000'000, line);
  digest_ = hash64(as_bytes(text), digest_);
  if (print_) std::fprintf(stdout, "%s\n", text.c_str());
  lines_.push_back(std::move(text));
  if (lines_.size() > kKept) lines_.pop_front();
}

Duration Scene::pause() const {
  if (late && world.now() < late->until) return std::chrono::milliseconds(400);
  return disturbances.in_force() ? Duration(std::chrono::milliseconds(120)) : Duration(0);
}

void Scene::part(std::uint32_t a, std::uint32_t b, Duration span) {
  journal.note(fmt::format("nodes {} and {} are parted", a, b));
  disturbances.begin();
  world.fabric().links().partition(a, b, true);
  world.at(world.now() + span, [this, a, b] {
    world.fabric().links().partition(a, b, false);
    disturbances.end(world.now());
  });
}

void Scene::refuse_cuts(ServerId server, Duration span) {
  journal.note(fmt::format("server {} refuses truncations", server.value));
  disturbances.begin();
  for (auto& disk : world.disks(server).targets) disk->faults().refuse(trove::BytestreamOp::kTruncate, Errc::kIoError);
  world.at(world.now() + span, [this, server] {
    for (auto& disk : world.disks(server).targets) disk->faults().clear();
    disturbances.end(world.now());
  });
}

bool Scene::writes_may_be_lost() {
  const auto write_back_failed = [this](ServerId server) {
    const auto& disks = world.disks(server).targets;
    return std::any_of(disks.begin(), disks.end(),
                       [](const auto& disk) { return disk->statistics().failed_syncs > 0; });
  };
  const auto servers = world.servers();
  return io_server_died || std::any_of(servers.begin(), servers.end(), write_back_failed);
}

void Scene::expect_excuse(std::string_view what, Errc code, MonoTime begun) {
  if (!disturbances.quiet_since(MonoTime{begun.since_start - kGrace})) return;
  fail(fmt::format("{} failed with {} though nothing was wrong for {} s", what, name(code),
                   std::chrono::duration_cast<std::chrono::seconds>(kGrace).count()));
}

bool is_transient(Errc code) {
  switch (code) {
    case Errc::kUnknown:
    case Errc::kCancelled:
    case Errc::kTimeout:
    case Errc::kBusy:
    case Errc::kTryAgain:
    case Errc::kNoSpace:
    case Errc::kIoError:
    case Errc::kReadOnly:
    case Errc::kLostWrite:
    case Errc::kUnreachable:
    case Errc::kConnectionLost:
    case Errc::kUnauthenticated:
    case Errc::kSessionUnknown:
    case Errc::kSessionFenced:
    case Errc::kLostLock:
    case Errc::kCapabilityExpired:
    case Errc::kForgottenRequest: return true;
    default: return false;
  }
}

}  // namespace spate::cluster
