// SPDX-License-Identifier: Apache-2.0
// BulkSlices: bulk data moves in slices, at the end of a turn. Between two slices the control connections are read and
// their messages delivered. So a control message waits for one slice at most, however much bulk data there is (BMI sec.
// 3: the priorities of the GM module's messages).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "base/unique_fd.h"
#include "bmi/tcp/connection.h"
#include "bmi/tcp/tcp_module.h"

namespace spate::bmi::tcp {

/// Life cycle: construct -> open() -> other calls -> destroyed; a connection is removed before it ends. The module's
/// lock guards it. It lists the connections with data that waits for a slice, each one once.
class BulkSlices {
 public:
  static constexpr std::uint64_t kLeast = 16 * 1024;

  explicit BulkSlices(const TcpOptions& options) : options_(options) {}

  /// False, with errno: out of descriptors.
  bool open();
  /// Readable while a connection has data that waits, as of the last show().
  int descriptor() const { return shown_event_.get(); }
  void show();

  /// How many bytes the next slice may move.
  std::uint64_t size() const {
    constexpr std::uint64_t kQuiet = 256 * 1024;
    return since_control_ < kQuiet ? options_.slice_bytes : options_.quiet_slice_bytes;
  }
  /// A message of the control class was sent or received.
  void control_moved() { since_control_ = 0; }

  bool any_due() const { return !due_.empty(); }
  void add(Connection& connection, bool to_read);
  void remove(Connection& connection) {
    if (connection.due) std::erase(due_, &connection);
  }
  /// Serves one slice: `serve(connection, limit)` moves up to `limit` bytes of the connection and returns how many it
  /// moved. `reports_wait`: reports wait for delivery.
  template <typename Serve>
  void serve(bool reports_wait, Serve serve) {
    put_off_ = reports_wait && puts_off();
    if (put_off_) return;
    for (std::uint64_t left = size(); !due_.empty() && left >= kLeast;) {
      Connection& connection = *due_.front();
      due_.pop_front();
      connection.due = false;
      const std::uint64_t bytes = serve(connection, left);
      since_control_ += bytes;
      left -= std::min(left, bytes);
    }
  }

 private:
  bool puts_off() const;

  const TcpOptions& options_;
  UniqueFd shown_event_;
  std::deque<Connection*> due_;
  bool shown_ = false;               // shown_event_ is readable
  std::uint64_t since_control_ = 0;  // bytes served since the last message of the control class
  bool put_off_ = false;             // the last turn served nothing
};

}  // namespace spate::bmi::tcp
