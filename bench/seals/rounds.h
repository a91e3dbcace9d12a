// SPDX-License-Identifier: Apache-2.0
// Rounds: rpc round trips over tcp on loopback, sealed or bare, with both ends on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace spate::bench {

/// A client and a server that answers each request with as many bytes as the request names. Both run on the calling
/// thread, so that thread's processor time is the sum of both. Neither ever sleeps.
class Rounds {
 public:
  /// `sealed`: both have a key, so each request and reply after the handshake is sealed.
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
