// SPDX-License-Identifier: Apache-2.0
#include "preload/broker/channel.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/local_packet.h"

namespace spate::preload {
namespace {

constexpr std::size_t kLargest = 512;  // bytes of a packet

Error broken(int failed, const char* what) {
  return failed == EAGAIN ? Error(Errc::kTryAgain, what) : Error(Errc::kConnectionLost, what);
}

}  // namespace

std::string broker_name(std::uint64_t id) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "broker-%016llx", static_cast<unsigned long long>(id));
  return name.data();
}

Result<void> send_packet(int socket, const Bytes& body, int descriptor) {
  const int failed =
      send_local_packet(socket, body, descriptor < 0 ? std::span<const int>() : std::span(&descriptor, 1));
  if (failed != 0) return broken(failed, "send to the other side of a broker's socket");
  return {};
}

Result<Packet> receive_packet(int socket, bool wait) {
  Packet out;
  out.body.resize(kLargest);
  LocalPacket got;
  const int failed = receive_local_packet(socket, out.body, got, wait);
  if (failed != 0) return broken(failed, "hear from the other side of a broker's socket");
  if (got.size == 0) return Error(Errc::kConnectionLost, "the other side of a broker's socket has ended");
  out.descriptor = std::move(got.descriptors[0]);
  out.body.resize(got.size);
  return out;
}

}  // namespace spate::preload
