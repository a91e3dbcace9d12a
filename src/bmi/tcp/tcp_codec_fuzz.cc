// SPDX-License-Identifier: Apache-2.0
// Fuzzer: decodes frames, handshakes and URLs from any bytes. They must be refused, or their encoding must decode to
// the same value. The first byte chooses the decoder.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "bmi/tcp/endpoint.h"
#include "bmi/tcp/frame.h"
#include "bmi/tcp/hello.h"

namespace spate::bmi::tcp {
namespace {

void check_frame(ByteView input) {
  if (input.size() < kHeaderSize) return;
  const auto header = decode_frame(input.data());
  if (!header) return;
  SPATE_CHECK(std::ranges::equal(encode(*header), input.first(kHeaderSize)));
  SPATE_CHECK(header->payload() == 0 || header->payload() == header->length);
}

void check_hello(ByteView input) {
  if (input.size() < kHelloSize) return;
  const auto hello = decode_hello(input.data());
  if (!hello) return;
  // The other fields were not decoded.
  if (!hello->versions.meets(kVersions)) return;
  const auto bytes = encode(*hello);
  SPATE_CHECK(decode_hello(bytes.data()) == hello);
  SPATE_CHECK(hello->channel <= hello->bulk_connections && hello->bulk_connections <= kMaxBulkConnections);
}

void check_welcome(ByteView input) {
  if (input.size() < kWelcomeSize) return;
  const auto welcome = decode_welcome(input.data());
  if (welcome) SPATE_CHECK(decode_welcome(encode(*welcome).data()) == welcome);
}

void check_url(ByteView input) {
  const std::string_view url = as_text(input);
  const auto endpoint = parse_url(url);
  if (!endpoint) {
    SPATE_CHECK(endpoint.code() == Errc::kBadAddress);
    return;
  }
  SPATE_CHECK(url.find(endpoint->host) != std::string_view::npos);
  SPATE_CHECK(endpoint->named == endpoint->addresses.empty());
  for (const SocketAddress& address : endpoint->addresses) {
    SPATE_CHECK(address.port() == endpoint->port && address.same_host(address));
    const auto again = parse_url("tcp://" + address.text());
    SPATE_CHECK(again && again->addresses.front().same_host(address) && again->port == endpoint->port);
  }
}

void run(std::uint8_t kind, ByteView input) {
  switch (kind) {
    case 0: return check_frame(input);
    case 1: return check_hello(input);
    case 2: return check_welcome(input);
    case 3: return check_url(input);
    default: return;
  }
}

}  // namespace
}  // namespace spate::bmi::tcp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  spate::bmi::tcp::run(data[0], {reinterpret_cast<const std::byte*>(data) + 1, size - 1});
  return 0;
}
