// SPDX-License-Identifier: Apache-2.0
#include "model/cluster_map.h"

#include "base/expect.h"

namespace spate {
namespace {

ClusterMap example() {
  ClusterMap map;
  map.version = 3;
  map.fs = FsId(0xabc);
  map.servers = {
      {ServerId(1), {"tcp://a:1"}, {true, false}, {}},
      {ServerId(2), {"shm://b", "tcp://b:1"}, {false, true}, {target_id(ServerId(2), 0), target_id(ServerId(2), 1)}},
      {ServerId(9), {"tcp://c:1"}, {true, true}, {target_id(ServerId(9), 0)}}};
  return map;
}

TEST(ClusterMap, FindsServersTargetsAndShards) {
  const ClusterMap map = example();
  EXPECT_EQ(map.find_server(ServerId(9))->urls[0], "tcp://c:1");
  EXPECT_EQ(map.find_server(ServerId(3)), nullptr);
  EXPECT_EQ(map.server_of_target(TargetId(2 * 256 + 1))->id, ServerId(2));
  EXPECT_EQ(map.server_of_target(TargetId(2 * 256 + 2)), nullptr);
  EXPECT_EQ(map.server_of_target(TargetId(0)), nullptr);
  EXPECT_EQ(map.server_of_shard(0)->id, ServerId(1));
  EXPECT_EQ(map.server_of_shard(1)->id, ServerId(9));
  EXPECT_EQ(map.server_of_shard(2), nullptr);
}

TEST(ClusterMap, ConsecutiveTargetsAreOnDifferentServers) {
  EXPECT_EQ(example().targets_in_turn(), (std::vector{TargetId(512), TargetId(9 * 256), TargetId(513)}));
}

TEST(ClusterMap, DecodeEncodeIsTheIdentityAndEveryPrefixFails) {
  Bytes bytes;
  Encoder encoder(bytes);
  encode(encoder, example());
  Decoder decoder(bytes);
  EXPECT_EQ(decode_cluster_map(decoder), example());
  EXPECT_TRUE(decoder.finish("map").has_value());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    Decoder cut(ByteView(bytes).first(n));
    (void)decode_cluster_map(cut);
    EXPECT_FALSE(cut.ok()) << n;
  }
}

TEST(ClusterMap, DecodeRefusesWhatIsOutOfRangeOrOrder) {
  const auto accepts = [](const ClusterMap& map) {
    Bytes bytes;
    Encoder encoder(bytes);
    encode(encoder, map);
    Decoder decoder(bytes);
    (void)decode_cluster_map(decoder);
    return decoder.finish("map").has_value();
  };
  EXPECT_TRUE(accepts(example()));
  ClusterMap map = example();
  std::swap(map.servers[0], map.servers[1]);
  EXPECT_FALSE(accepts(map));
  map = example();
  map.servers[1].targets[0] = target_id(ServerId(3), 0);
  EXPECT_FALSE(accepts(map));
  map = example();
  map.servers[0].roles = {};
  EXPECT_FALSE(accepts(map));
  map = example();
  map.servers[0].urls.clear();
  EXPECT_FALSE(accepts(map));
  map = example();
  map.version = 0;
  EXPECT_FALSE(accepts(map));
}

}  // namespace
}  // namespace spate
