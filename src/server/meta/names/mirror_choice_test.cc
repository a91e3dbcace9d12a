// SPDX-License-Identifier: Apache-2.0
#include "server/meta/names/mirror_choice.h"

#include <gmock/gmock.h>

#include <set>

#include "base/expect.h"
#include "base/random.h"
#include "model/member_choice.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

using ::testing::HasSubstr;

class EarlierClientTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  EarlierClientTest() : fs_(options()) { fs_.client_features = wire::kFeatureNone; }

  static TestFsOptions options() {
    TestFsOptions options;
    options.meta.replicas = GetParam();
    return options;
  }
  Result<wire::CreateReply> create(const std::string& path) {
    wire::CreateRequest request;
    request.where = at(path);
    return fs_.asked<wire::CreateReply>(root_user(), request);
  }
  /// A client of this version makes the file "f".
  void make_file() {
    fs_.client_features = wire::kFeatureMirrors;
    ASSERT_OK(create("f"));
    fs_.client_features = wire::kFeatureNone;
  }
  Result<wire::LookupReply> lookup() {
    wire::LookupRequest request;
    request.where = at("f");
    return fs_.asked<wire::LookupReply>(root_user(), request);
  }

  TestFs fs_;
};

using EarlierClientOfMirroredFilesTest = EarlierClientTest;
using EarlierClientOfSingleCopiesTest = EarlierClientTest;

TEST_P(EarlierClientOfMirroredFilesTest, IsRefusedWithASentence) {
  make_file();
  const auto found = lookup();
  EXPECT_ERRC(found, Errc::kNotSupported);
  EXPECT_THAT(found.error().message(), HasSubstr("needs a newer version of Spate"));
  const auto made = create("g");
  EXPECT_ERRC(made, Errc::kNotSupported);
  EXPECT_THAT(made.error().message(), HasSubstr("needs a newer version of Spate"));
}

TEST_P(EarlierClientOfSingleCopiesTest, IsServed) {
  make_file();
  EXPECT_OK(lookup());
  EXPECT_OK(create("g"));
}

INSTANTIATE_TEST_SUITE_P(Two, EarlierClientOfMirroredFilesTest, ::testing::Values(2U));
INSTANTIATE_TEST_SUITE_P(One, EarlierClientOfSingleCopiesTest, ::testing::Values(1U));

std::string place(const ClusterMap& map, TargetId target, Apart apart) {
  return std::string(place_of(*map.server_of_target(target), apart));
}

std::set<std::string> places(const ClusterMap& map, const std::vector<TargetId>& targets, Apart apart) {
  std::set<std::string> found;
  for (const TargetId target : targets) found.insert(place(map, target, apart));
  return found;
}

std::size_t places_of_all(const ClusterMap& map, Apart apart) {
  return places(map, map.targets_in_turn(), apart).size();
}

/// Up to 12 servers on up to 8 hosts in up to 5 racks. Some do not know their racks.
ClusterMap random_map(Random& random) {
  ClusterMap map;
  const std::uint64_t racks = 1 + random.below(5);
  const std::uint64_t hosts = 1 + random.below(8);
  const bool all_known = random.chance(2, 3);
  const std::uint64_t count = 2 + random.below(11);
  for (std::uint32_t id = 1; id <= count; ++id) {
    ServerEntry server;
    server.id = ServerId(id);
    server.urls = {"tcp://h" + std::to_string(random.below(hosts)) + ":7400"};
    server.roles = {false, true};
    const std::uint64_t folders = 1 + random.below(3);
    for (std::size_t i = 0; i < folders; ++i) server.targets.push_back(target_id(server.id, i));
    if (all_known || random.chance(1, 2)) server.rack = "r" + std::to_string(random.below(racks));
    map.servers.push_back(server);
  }
  return map;
}

/// The domain in which the copies must differ. It is computed without the code under test.
Apart wanted(const ClusterMap& map, std::size_t replicas) {
  for (const Apart apart : {Apart::kRacks, Apart::kHosts}) {
    if (places_of_all(map, apart) >= replicas) return apart;
  }
  return Apart::kServers;
}

TEST(MetaGroupMembers, NoTwoCopiesAreInOneRackIfThereAreEnoughRacks) {
  SeededRandom random(1);
  int in_racks = 0;
  for (int i = 0; i < 3000; ++i) {
    const ClusterMap map = random_map(random);
    const auto replicas = static_cast<std::uint32_t>(2 + random.below(4));
    const std::vector<TargetId> targets = map.targets_in_turn();
    const TargetId first = targets[random.below(targets.size())];
    const auto members = group_members(map, first, replicas, random.next());
    if (map.servers.size() < replicas) {
      EXPECT_ERRC(members, Errc::kNoSpace);
      continue;
    }
    ASSERT_OK(members);
    std::set<ServerId> servers;
    for (const TargetId member : *members) servers.insert(server_of(member));
    ASSERT_EQ(servers.size(), replicas) << "map " << i;
    const Apart apart = wanted(map, replicas);
    if (apart != Apart::kServers) {
      ASSERT_EQ(places(map, *members, apart).size(), replicas) << "map " << i;
    }
    in_racks += apart == Apart::kRacks ? 1 : 0;
  }
  EXPECT_GT(in_racks, 1000);
}

TEST(MetaGroupMembers, NoReplacementBringsTwoCopiesIntoOneRackIfThereAreEnoughRacks) {
  SeededRandom random(2);
  int found = 0;
  for (int i = 0; i < 3000; ++i) {
    const ClusterMap map = random_map(random);
    const auto replicas = static_cast<std::uint32_t>(2 + random.below(3));
    const std::vector<TargetId> targets = map.targets_in_turn();
    const auto members = group_members(map, targets[random.below(targets.size())], replicas, random.next());
    if (!members) continue;
    DataGroup group;
    group.id = TargetId(kFirstGroup.value + static_cast<std::uint32_t>(random.below(1000)));
    for (const TargetId member : *members) group.members.push_back({member, MemberState::kServing});
    const std::size_t gone = random.below(members->size());
    const Apart apart = wanted(map, replicas);
    for (const TargetId candidate : replacements(map, group, (*members)[gone])) {
      std::vector<TargetId> next = *members;
      next[gone] = candidate;
      if (apart == Apart::kServers) continue;
      ASSERT_EQ(places(map, next, apart).size(), replicas) << "map " << i;
      ++found;
    }
  }
  EXPECT_GT(found, 1000);
}

}  // namespace
}  // namespace spate::meta
