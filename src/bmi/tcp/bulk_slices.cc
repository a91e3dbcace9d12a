// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/bulk_slices.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

namespace spate::bmi::tcp {

bool BulkSlices::open() {
  shown_event_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return static_cast<bool>(shown_event_);
}

void BulkSlices::add(Connection& connection, bool to_read) {
  if (connection.closed) return;
  (to_read ? connection.to_read : connection.to_write) = true;
  if (!std::exchange(connection.due, true)) due_.push_back(&connection);
}

/// Whether messages of control connections must be reported before a long piece of bulk work. It never says so twice in
/// a row, so that bulk data does not starve among many small messages.
bool BulkSlices::puts_off() const {
  return !put_off_ && std::ranges::any_of(due_, [](Connection* c) { return c->moves_much(); });
}

void BulkSlices::show() {
  if (shown_ == !due_.empty()) return;
  shown_ = !due_.empty();
  std::uint64_t count = 1;
  if (shown_) {
    SPATE_CHECK(::write(shown_event_.get(), &count, sizeof count) == sizeof count);
  } else {
    SPATE_CHECK(::read(shown_event_.get(), &count, sizeof count) == sizeof count);
  }
}

}  // namespace spate::bmi::tcp
