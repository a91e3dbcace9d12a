// SPDX-License-Identifier: Apache-2.0
#include "bmi/unauthenticated_peers.h"

#include <gmock/gmock.h>

#include <optional>
#include <set>

#include "base/expect.h"

namespace spate::bmi {
namespace {

class UnauthenticatedPeersTest : public testing::Test {
 protected:
  std::optional<int> add(int key, const std::string& source) {
    return unauthenticated_peers_.add(key, source, limits_, random_);
  }
  /// Adds an unauthenticated peer and removes the one that has to go, as modules do.
  std::optional<int> admit_one_more(int key, const std::string& source) {
    const std::optional<int> victim = add(key, source);
    if (victim) unauthenticated_peers_.remove(*victim);
    return victim;
  }

  UnauthenticatedPeerLimits limits_{.deadline_ms = 5000, .most = 6, .most_of_a_source = 3};
  SeededRandom random_{1};
  UnauthenticatedPeers<int> unauthenticated_peers_;
};

TEST_F(UnauthenticatedPeersTest, ASourceWithTooManyUnauthenticatedPeersLosesOneOfThem) {
  EXPECT_EQ(admit_one_more(1000, "other"), std::nullopt);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(admit_one_more(i, "flood"), std::nullopt);
  for (int i = 3; i < 200; ++i) {
    const auto victim = admit_one_more(i, "flood");
    ASSERT_NE(victim, std::nullopt) << i;
    EXPECT_NE(*victim, 1000);
    EXPECT_NE(*victim, i) << "the newcomer itself";
    EXPECT_EQ(unauthenticated_peers_.size(), 4U);
  }
}

TEST_F(UnauthenticatedPeersTest, WithTooManyInAllTheMostCrowdedSourceLosesOne) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(admit_one_more(i, "flood"), std::nullopt);
  for (int i = 10; i < 13; ++i) EXPECT_EQ(admit_one_more(i, "single " + std::to_string(i)), std::nullopt);
  const auto victim = admit_one_more(20, "single 20");
  ASSERT_NE(victim, std::nullopt);
  EXPECT_LT(*victim, 3);
}

TEST_F(UnauthenticatedPeersTest, WithTooManySourcesOfOneUnauthenticatedPeerEachOneIsDropped) {
  std::set<int> victims;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(admit_one_more(i, "single " + std::to_string(i)), std::nullopt);
  for (int i = 6; i < 100; ++i) {
    const auto victim = admit_one_more(i, "single " + std::to_string(i));
    ASSERT_NE(victim, std::nullopt);
    victims.insert(*victim);
    EXPECT_EQ(unauthenticated_peers_.size(), 6U);
  }
  EXPECT_THAT(victims, testing::Not(testing::Contains(99)));
}

TEST_F(UnauthenticatedPeersTest, TheDroppedUnauthenticatedPeerIsChosenAtRandom) {
  std::set<int> victims;
  for (int round = 0; round < 100; ++round) {
    UnauthenticatedPeers<int> unauthenticated_peers;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(unauthenticated_peers.add(i, "flood", limits_, random_), std::nullopt);
    victims.insert(unauthenticated_peers.add(3, "flood", limits_, random_).value());
  }
  EXPECT_EQ(victims, (std::set<int>{0, 1, 2}));
}

TEST_F(UnauthenticatedPeersTest, AnUnauthenticatedPeerThatHasSentARequestStaysDuringAFloodOfConnections) {
  EXPECT_EQ(add(1000, "host"), std::nullopt);
  unauthenticated_peers_.asked(1000);
  unauthenticated_peers_.asked(77);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(add(i, "host"), std::nullopt);
  for (int i = 2; i < 200; ++i) EXPECT_NE(admit_one_more(i, "host").value_or(1000), 1000) << i;
  for (int i = 200; i < 203; ++i) {  // until all of them have asked
    admit_one_more(i, "host");
    unauthenticated_peers_.asked(i);
  }
  std::set<int> victims;
  for (int i = 300; i < 340; ++i) {
    victims.insert(admit_one_more(i, "host").value_or(-1));
    unauthenticated_peers_.asked(i);
  }
  EXPECT_THAT(victims, testing::Not(testing::Contains(-1)));
  EXPECT_EQ(unauthenticated_peers_.size(), 3U);
}

TEST_F(UnauthenticatedPeersTest, RemovingAnUnauthenticatedPeerFreesItsPlace) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(add(i, "host"), std::nullopt);
  unauthenticated_peers_.remove(1);
  unauthenticated_peers_.remove(1);
  unauthenticated_peers_.remove(77);
  EXPECT_EQ(add(4, "host"), std::nullopt);
  EXPECT_EQ(unauthenticated_peers_.size(), 3U);
}

TEST_F(UnauthenticatedPeersTest, WithoutADeadlineOnlyTheTotalNumberIsLimited) {
  limits_.deadline_ms = 0;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(admit_one_more(i, "host"), std::nullopt);
  EXPECT_NE(admit_one_more(6, "host"), std::nullopt);
}

}  // namespace
}  // namespace spate::bmi
