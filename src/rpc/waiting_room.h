// SPDX-License-Identifier: Apache-2.0
// WaitingRoom: requests that have arrived while all places are taken.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "bmi/network.h"

namespace spate::rpc {

/// First come, first served. One executor.
class WaitingRoom {
 public:
  /// Bytes of requests that may wait: of all peers together, and of one.
  WaitingRoom(std::uint64_t most_bytes, std::uint64_t most_bytes_of_a_peer)
      : most_bytes_(most_bytes), most_bytes_of_a_peer_(most_bytes_of_a_peer) {}

  bool empty() const { return messages_.empty(); }
  /// Takes the message. False: there is no room for it, and it was left as it is.
  bool put(bmi::UnexpectedMessage& message) {
    const std::uint64_t size = size_of(message);
    std::uint64_t& of_peer = bytes_of_peer_[message.peer];
    if (bytes_ + size > most_bytes_ || of_peer + size > most_bytes_of_a_peer_) {
      if (of_peer == 0) bytes_of_peer_.erase(message.peer);
      return false;
    }
    of_peer += size;
    bytes_ += size;
    messages_.push_back(std::move(message));
    return true;
  }
  /// The oldest message. Precondition: !empty().
  bmi::UnexpectedMessage take() {
    bmi::UnexpectedMessage message = std::move(messages_.front());
    messages_.pop_front();
    const std::uint64_t size = size_of(message);
    bytes_ -= size;
    const auto of_peer = bytes_of_peer_.find(message.peer);
    if ((of_peer->second -= size) == 0) bytes_of_peer_.erase(of_peer);
    return message;
  }
  void clear() {
    messages_.clear();
    bytes_of_peer_.clear();
    bytes_ = 0;
  }

 private:
  /// With what the queue itself needs for it.
  static std::uint64_t size_of(const bmi::UnexpectedMessage& message) { return message.payload.size() + 64; }

  const std::uint64_t most_bytes_;
  const std::uint64_t most_bytes_of_a_peer_;
  std::uint64_t bytes_ = 0;
  std::deque<bmi::UnexpectedMessage> messages_;
  std::unordered_map<bmi::Address, std::uint64_t> bytes_of_peer_;
};

}  // namespace spate::rpc
