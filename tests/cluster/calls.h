// SPDX-License-Identifier: Apache-2.0
// Calls of a client: a test waits for their end, or does other things meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "tests/cluster/world.h"

namespace spate::cluster {

/// An open for reading and writing.
inline constexpr auto kReadWrite = static_cast<std::uint8_t>(wire::kOpenRead | wire::kOpenWrite);

/// The result of a call; nothing while the call is in flight.
template <typename T>
using Outcome = std::shared_ptr<std::optional<T>>;

template <typename T>
job::Task<void> store(job::Task<T> task, Outcome<T> outcome) {
  *outcome = co_await std::move(task);
}

template <typename T>
Outcome<T> begin_call(ClientProcess& client, job::Task<T> task) {
  auto outcome = std::make_shared<std::optional<T>>();
  job::spawn(client.gate(), store(std::move(task), outcome));
  return outcome;
}

/// Lets time pass until the call has ended, at most five minutes.
template <typename T>
T end_call(World& world, const Outcome<T>& outcome) {
  const MonoTime limit = world.now() + std::chrono::minutes(5);
  while (!*outcome && world.turn(limit)) {
  }
  SPATE_CHECK(outcome->has_value());  // otherwise the call hangs
  return *std::move(*outcome);
}

template <typename T>
T call(World& world, ClientProcess& client, job::Task<T> task) {
  return end_call(world, begin_call(client, std::move(task)));
}

}  // namespace spate::cluster
