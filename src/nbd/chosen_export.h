// SPDX-License-Identifier: Apache-2.0
// ChosenExport: the export that the client of a connection has chosen, and the options negotiated for it.
#pragma once

#include <cstddef>
#include <optional>

#include "job/task.h"
#include "nbd/device.h"
#include "nbd/protocol.h"

namespace spate::nbd {

/// One executor. It lives while its connection is in the transmission phase.
class ChosenExport {
 public:
  /// `device` outlives it.
  ChosenExport(Device& device, RequestRules rules)
      : device_(device), rules_(rules), losses_at_start_(device.losses()) {}

  Device& device() const { return device_; }
  bool structured() const { return rules_.structured; }

  /// Checks a request against the size that the client was told, or the present size if that is larger: the client may
  /// have learnt it on another connection, and the protocol has no message for it here. A request that writes is
  /// checked against the present size: if a file was truncated, a write behind its end must not bring it back. A read
  /// there fails by itself.
  Verdict judge(const Request& request);
  /// Later requests are checked against the size at that time.
  void forget_size() { size_now_.reset(); }

  /// Makes completed writes durable. It also fails with kIo if the flush of another connection has reported a lost
  /// write.
  job::Task<Failure> flush();

  /// The bytes before the data in the reply to a read.
  std::size_t data_header_bytes() const;
  /// `done`: the data ends the reply.
  void put_data_header(std::byte* at, const Request& request, bool done) const;

 private:
  std::uint64_t size_now();

  Device& device_;
  RequestRules rules_;
  std::optional<std::uint64_t> size_now_;
  const std::uint64_t losses_at_start_;
};

}  // namespace spate::nbd
