// SPDX-License-Identifier: Apache-2.0
// ChosenExport: the export that the client of a connection has chosen, and what was agreed on it.
#pragma once

#include <cstddef>
#include <optional>

#include "job/task.h"
#include "nbd/device.h"
#include "nbd/protocol.h"

namespace spate::nbd {

/// One executor. It lives as long as its connection is in the transmission phase.
class ChosenExport {
 public:
  /// `device` outlives it.
  ChosenExport(Device& device, RequestRules rules)
      : device_(device), rules_(rules), losses_at_start_(device.losses()) {}

  Device& device() const { return device_; }
  bool structured() const { return rules_.structured; }

  /// Judges a request by the size that the client was told, or by what it is now if that is more: the client may have
  /// learnt it by another connection (the protocol has no way to tell it by this one). What writes is judged by what it
  /// is now: of a file that was cut the rest must not come back by a write behind its end, while a read fails by
  /// itself.
  Verdict judge(const Request& request);
  /// Requests from now on are judged by what the size is then.
  void forget_size() { size_now_.reset(); }

  /// kIo also when another connection's flush was told that a write was lost.
  job::Task<Failure> flush();

  /// What stands before the data of a reply to a read.
  std::size_t data_header_bytes() const;
  /// `done`: nothing follows the data in the reply.
  void put_data_header(std::byte* at, const Request& request, bool done) const;

 private:
  std::uint64_t size_now();

  Device& device_;
  RequestRules rules_;
  std::optional<std::uint64_t> size_now_;
  const std::uint64_t losses_at_start_;
};

}  // namespace spate::nbd
