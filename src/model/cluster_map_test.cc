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

TEST(ClusterMap, FindsServersAndTargets) {
  const ClusterMap map = example();
  EXPECT_EQ(map.find_server(ServerId(9))->urls[0], "tcp://c:1");
  EXPECT_EQ(map.find_server(ServerId(3)), nullptr);
  EXPECT_EQ(map.server_of_target(TargetId(2 * 256 + 1))->id, ServerId(2));
  EXPECT_EQ(map.server_of_target(TargetId(2 * 256 + 2)), nullptr);
  EXPECT_EQ(map.server_of_target(TargetId(0)), nullptr);
}

TEST(ClusterMap, ConsecutiveTargetsAreOnDifferentServers) {
  EXPECT_EQ(example().targets_in_turn(), (std::vector{TargetId(512), TargetId(9 * 256), TargetId(513)}));
}

TEST(ClusterMap, GrowingAddsServersAndTargetsAndTakesNothingAway) {
  ClusterMap map = example();
  ClusterMap other;
  other.version = 2;
  other.fs = map.fs;
  other.servers = {{ServerId(2), {"tcp://elsewhere:1"}, {false, true}, {target_id(ServerId(2), 2)}},
                   {ServerId(5), {"tcp://d:1"}, {false, true}, {target_id(ServerId(5), 0)}}};
  EXPECT_OK(map.grow(other));
  ClusterMap expected = example();
  expected.servers[1].targets.push_back(target_id(ServerId(2), 2));
  expected.servers.insert(expected.servers.begin() + 2, other.servers[1]);
  EXPECT_EQ(map, expected);
  EXPECT_OK(map.grow(example()));  // an older map
  EXPECT_EQ(map, expected);
}

TEST(ClusterMap, DoesNotGrowByAMapOfAnotherFileSystemOrWithOtherRoles) {
  ClusterMap map = example();
  ClusterMap other = example();
  other.fs = FsId(0xabd);
  other.servers.push_back({ServerId(10), {"tcp://d:1"}, {false, true}, {}});
  EXPECT_ERRC(map.grow(other), Errc::kWrongFileSystem);
  other.fs = map.fs;
  other.servers[0].roles.io = true;
  EXPECT_ERRC(map.grow(other), Errc::kProtocol);
  EXPECT_EQ(map, example());
}

TEST(ClusterMap, DecodeEncodeIsTheIdentityAndEveryPrefixFails) {
  Bytes bytes;
  Encoder encoder(bytes);
  encode(encoder, example());
  Decoder decoder(bytes);
  EXPECT_EQ(decode_cluster_map(decoder), example());
  EXPECT_OK(decoder.finish("map"));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    Decoder cut(ByteView(bytes).first(n));
    (void)decode_cluster_map(cut);
    EXPECT_FALSE(cut.ok()) << n;
  }
}

TEST(ClusterMap, DecodeRefusesValuesOutOfRangeOrOrder) {
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
