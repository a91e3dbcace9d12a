// SPDX-License-Identifier: Apache-2.0
// AdmissionQueue: requests that have arrived while all permits are taken.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "base/clock.h"
#include "rpc/call.h"

namespace spate::rpc {

/// A request that has arrived and has not begun.
struct Arrived {
  bmi::UnexpectedMessage message;  // without its seal
  std::shared_ptr<Peer> peer;      // its sender, on the connection by which it came
  bool sealed = false;             // whether it was sealed
  MonoTime at;                     // when it came
};

/// First come, first served. One executor.
class AdmissionQueue {
 public:
  /// Most bytes of waiting requests: of all peers together, and of one peer.
  AdmissionQueue(std::uint64_t most_bytes, std::uint64_t most_bytes_of_a_peer)
      : most_bytes_(most_bytes), most_bytes_of_a_peer_(most_bytes_of_a_peer) {}

  bool empty() const { return requests_.empty(); }
  /// Takes the request. False: there is no room, and the request is unchanged.
  bool put(Arrived& request) {
    const std::uint64_t size = size_of(request);
    std::uint64_t& of_peer = bytes_of_peer_[request.message.peer];
    if (bytes_ + size > most_bytes_ || of_peer + size > most_bytes_of_a_peer_) {
      if (of_peer == 0) bytes_of_peer_.erase(request.message.peer);
      return false;
    }
    of_peer += size;
    bytes_ += size;
    requests_.push_back(std::move(request));
    return true;
  }
  /// The oldest one. Precondition: !empty().
  Arrived take() {
    Arrived request = std::move(requests_.front());
    requests_.pop_front();
    const std::uint64_t size = size_of(request);
    bytes_ -= size;
    const auto of_peer = bytes_of_peer_.find(request.message.peer);
    if ((of_peer->second -= size) == 0) bytes_of_peer_.erase(of_peer);
    return request;
  }
  void clear() {
    requests_.clear();
    bytes_of_peer_.clear();
    bytes_ = 0;
  }

 private:
  /// Includes the memory that the queue itself needs for the request.
  static std::uint64_t size_of(const Arrived& request) { return request.message.payload.size() + 64; }

  const std::uint64_t most_bytes_;
  const std::uint64_t most_bytes_of_a_peer_;
  std::uint64_t bytes_ = 0;
  std::deque<Arrived> requests_;
  std::unordered_map<bmi::Address, std::uint64_t> bytes_of_peer_;
};

}  // namespace spate::rpc
