// SPDX-License-Identifier: Apache-2.0
// Bulk data moves in slices, at the end of a turn. Between two slices the control connections are read and their
// messages delivered. So a control message waits for one slice at most, however much bulk data there is (BMI sec. 3:
// the priorities of the GM module's messages).
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "bmi/tcp/engine.h"

namespace spate::bmi::tcp {

std::uint64_t Engine::slice() const {
  constexpr std::uint64_t kQuiet = 256 * 1024;
  return since_control_ < kQuiet ? tcp_options_.slice_bytes : tcp_options_.quiet_slice_bytes;
}

/// The first bulk message that is posted between two turns leaves at once. The others leave together in the next turn,
/// so that a row of small ones costs one system call and fills its packets (bench/run bmi figure4).
bool Engine::gathers(Connection& connection) { return std::exchange(connection.posted_in_turn, turn_) == turn_; }

void Engine::make_due(Connection& connection, bool to_read) {
  if (connection.closed) return;
  (to_read ? connection.to_read : connection.to_write) = true;
  if (!std::exchange(connection.due, true)) due_.push_back(&connection);
}

/// Whether what came on control connections is to be told before a long piece of bulk work. Never twice in a row: bulk
/// data do not starve among many small messages.
bool Engine::puts_off() const {
  return !put_off_ && state_.outbox.waiting() &&
         std::ranges::any_of(due_, [](Connection* c) { return c->moves_much(); });
}

void Engine::serve_due() {
  put_off_ = puts_off();
  if (put_off_) return;
  for (std::uint64_t left = slice(); !due_.empty() && left >= kLeastSlice;) {
    Connection& connection = *due_.front();
    due_.pop_front();
    connection.due = false;
    const std::uint64_t bytes = serve(connection, left);
    since_control_ += bytes;
    left -= std::min(left, bytes);
  }
}

std::uint64_t Engine::serve(Connection& connection, std::uint64_t limit) {
  std::uint64_t bytes = 0;
  if (std::exchange(connection.to_write, false)) bytes += flush_now(connection, limit);
  if (!connection.closed && std::exchange(connection.to_read, false)) bytes += read(connection, limit).bytes;
  return bytes;
}

void Engine::show_due() {
  if (due_shown_ == !due_.empty()) return;
  due_shown_ = !due_.empty();
  std::uint64_t count = 1;
  if (due_shown_) {
    SPATE_CHECK(::write(due_event_.get(), &count, sizeof count) == sizeof count);
  } else {
    SPATE_CHECK(::read(due_event_.get(), &count, sizeof count) == sizeof count);
  }
}

}  // namespace spate::bmi::tcp
