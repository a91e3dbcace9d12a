// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/send_schedule.h"

#include <algorithm>

namespace spate::bmi::tcp {
namespace {

/// The order of flushes: bulk data comes last, and only a slice of it. But a peer that gets bulk data gets its control
/// messages after the data, because they tell that it was sent. So the peer is not woken for them alone.
int pass_of(const Connection& connection) {
  if (connection.closed) return 1;  // its peer may be gone, too
  if (connection.channel != 0) return 2;
  for (const Channel& channel : connection.peer->channels) {
    if (&channel != &connection.peer->channels[0] && channel.connection != nullptr && channel.connection->held)
      return 3;
  }
  return 1;
}

}  // namespace

void SendSchedule::begin_turn() {
  in_turn_ = true;
  ++turn_;
  posts_in_turn_ = 0;
  flush_held();
}

bool SendSchedule::end_post(bool send) {
  // bench/run bmi figure4, 1 KiB: a turn after 128 or 512 posts makes it 1.20 times as fast.
  constexpr int kPostsInTurn = 128;
  posting_ = false;
  return send && ++posts_in_turn_ >= kPostsInTurn;
}

/// The first bulk message that is posted between two turns leaves at once. The others leave together in the next turn.
/// So many small messages cost one system call and fill their packets (bench/run bmi figure4).
bool SendSchedule::gathers(Connection& connection) const {
  return std::exchange(connection.posted_in_turn, turn_) == turn_;
}

void SendSchedule::flush(Connection& connection) {
  if (!posting_ || !holding_.load(std::memory_order_relaxed)) {
    // In a turn, bulk data is sent at the end, with a limit.
    const bool later = connection.channel != 0 && (in_turn_ || (posting_ && gathers(connection)));
    if (later) return slices_.add(connection, false);
    write(connection, slices_.size());
    return;
  }
  if (std::exchange(connection.held, true)) return;
  held_.push_back(&connection);
  held_any_.store(true, std::memory_order_relaxed);
}

/// Flushes the connections in the list. Closed ones are still there, because they are freed after this.
void SendSchedule::flush_held() {
  if (held_.empty()) return;
  std::uint64_t left = slices_.size();
  for (const int pass : {1, 2, 3}) {
    for (Connection* connection : held_) {
      if (pass_of(*connection) != pass) continue;
      if (pass != 2) {
        write(*connection, slices_.size());
      } else if (left >= BulkSlices::kLeast) {
        left -= std::min(left, write(*connection, left));
      } else {
        slices_.add(*connection, false);
      }
    }
  }
  for (Connection* connection : held_) connection->held = false;
  held_.clear();
  held_any_.store(false, std::memory_order_relaxed);
}

std::uint64_t SendSchedule::write(Connection& connection, std::uint64_t limit) {
  // A peer that causes answers and does not read them cannot make this side queue answers without bound.
  constexpr std::size_t kMaxAnswers = 64 * 1024;
  SendQueue& queue = connection.queue();
  if (connection.closed || connection.write_blocked || connection.connecting) {
    if (queue.answers() > kMaxAnswers) state_.lose_later(*connection.peer, Errc::kConnectionLost);
    return 0;
  }
  const std::uint64_t before = queue.bytes_sent();
  const std::uint64_t lent_before = queue.bytes_lent();
  // A slice consists of whole packets. One that ends with a small packet costs up to a quarter of the bandwidth
  // (bench/run bmi figure4).
  const std::uint64_t segment = connection.segment_bytes;
  const std::uint64_t most = limit > segment ? limit - limit % segment : limit;
  const FlushStatus status = queue.flush(connection.outlet(), *connection.peer, *scratch_, most);
  const std::uint64_t bytes = queue.bytes_sent() - before;
  state_.tcp_counters.sent_bytes += bytes;
  state_.tcp_counters.lent_bytes += queue.bytes_lent() - lent_before;
  // The connection must end before its key is used up, since OpenSSL 3.0 cannot give the kernel another key.
  if (connection.stream() != nullptr && connection.stream()->kernel_sends() &&
      queue.bytes_sent() > tls::Stream::kKeyBytes) {
    state_.lose_later(*connection.peer, Errc::kConnectionLost);
  }
  if (status == FlushStatus::kEmpty) return bytes;
  if (status == FlushStatus::kMore) {
    slices_.add(connection, false);
    return bytes;
  }
  connections_.block(connection);
  if (status == FlushStatus::kBlocked) return bytes;
  if (status == FlushStatus::kBadFile) {
    const int failed = queue.error_number();
    state_.peer_log.peer_dropped(connection.remote,
                                 errno_error(failed, "a file that was being sent cannot be read").message());
    state_.completed(*queue.front_op(), errc_from_errno(failed), 0);
  }
  state_.lose_later(*connection.peer, Errc::kConnectionLost);
  return bytes;
}

}  // namespace spate::bmi::tcp
