// SPDX-License-Identifier: Apache-2.0
// Rounds: round trips of rpc over tcp on loopback, sealed and bare, with both ends on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace spate::bench {

/// A client and a server that answers each request with as many bytes as it asks for. Both run on the thread that
/// calls, so the processor time of that thread is that of both ends. Nobody sleeps.
class Rounds {
 public:
  /// `sealed`: both have a key, so that each request and reply after the handshake is sealed.
  explicit Rounds(bool sealed);
  ~Rounds();
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  /// `count` round trips, one after the other: requests with a body of `request` bytes, replies of `reply` bytes.
  Result<void> run(std::uint64_t count, std::size_t request, std::size_t reply);

 private:
  class Ends;
  std::unique_ptr<Ends> ends_;
};

}  // namespace spate::bench
