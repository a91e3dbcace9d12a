// SPDX-License-Identifier: Apache-2.0
// Fuzzer: layouts, cluster maps and restrictions of users' keys from any bytes. A value that decodes must encode to the
// same bytes. The first byte chooses the decoder.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "model/cluster_map.h"
#include "model/layout.h"
#include "model/user_key.h"

namespace spate {
namespace {

void check_same(const Bytes& again, ByteView input) { SPATE_CHECK(std::ranges::equal(again, input)); }

void check_layout(ByteView input) {
  Decoder in(input);
  const Layout layout = decode_layout(in);
  if (!in.finish("layout")) return;
  SPATE_CHECK(!layout.slots.empty() && layout.slots.size() <= kMaxSlots);
  Bytes again;
  Encoder out(again);
  encode(out, layout);
  check_same(again, input);
}

void check_map(ByteView input) {
  Decoder in(input);
  const ClusterMap map = decode_cluster_map(in);
  if (!in.finish("cluster map")) return;
  Bytes again;
  Encoder out(again);
  encode(out, map);
  check_same(again, input);
  for (const ServerEntry& server : map.servers) {
    SPATE_CHECK(map.find_server(server.id) == &server);
    for (const TargetId target : server.targets) SPATE_CHECK(map.server_of_target(target) == &server);
  }
  (void)map.targets_in_turn();
}

void check_user_key(ByteView input) {
  const auto key = decode_user_key(input);
  if (!key) {
    SPATE_CHECK(key.code() == Errc::kInvalidArgument || key.code() == Errc::kNotSupported);
    return;
  }
  SPATE_CHECK(key->user.uid != 0 && covers(*key, key->user) && input.size() <= kMaxUserKeyBytes);
  check_same(encoded(*key), input);
}

}  // namespace
}  // namespace spate

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const spate::ByteView input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0]) {
    case 0: spate::check_layout(input); break;
    case 2: spate::check_user_key(input); break;
    default: spate::check_map(input);
  }
  return 0;
}
