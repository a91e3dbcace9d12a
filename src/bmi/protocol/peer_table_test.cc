// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/peer_table.h"

#include <memory>

#include "base/expect.h"

namespace spate::bmi::protocol {
namespace {

/// An inbound peer with operations of which the device uses the memory, if `busy`.
struct TablePeer {
  explicit TablePeer(PeerId its_id) : id(its_id) {}
  const TablePeer* first_op() const { return busy ? this : nullptr; }
  const PeerId id;
  LinkId link_id{};
  bool busy = false;
};

LinkId link_of(int number) { return {std::byte(number)}; }

class PeerTableTest : public testing::Test {
 protected:
  /// A peer that has connected to this side under the link and was admitted.
  TablePeer& admit(int link) {
    TablePeer& peer = peers_.add([](PeerId id) { return std::make_unique<TablePeer>(id); });
    peer.link_id = link_of(link);
    peers_.set_inbound(peer);
    return peer;
  }

  PeerTable<TablePeer> peers_;
};

TEST_F(PeerTableTest, EachPeerHasAnIdOfItsOwn) {
  TablePeer& one = admit(1);
  TablePeer& two = admit(2);
  EXPECT_NE(one.id, two.id);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(peers_.find(one.id), &one);
    EXPECT_EQ(peers_.find(two.id), &two);
  }
  EXPECT_EQ(peers_.find(PeerId(77)), nullptr);
}

TEST_F(PeerTableTest, APeerThatWasLookedUpIsNoInboundPeer) {
  TablePeer& peer = peers_.add([](PeerId id) { return std::make_unique<TablePeer>(id); });
  peer.link_id = link_of(1);
  EXPECT_EQ(peers_.inbound(link_of(1)), nullptr);
  EXPECT_EQ(peers_.inbound_connected(), 0U);
}

TEST_F(PeerTableTest, TheLastAdmittedPeerOfALinkIsThePeerOfTheLink) {
  TablePeer& before = admit(1);
  TablePeer& other = admit(2);
  TablePeer& peer = peers_.add([](PeerId id) { return std::make_unique<TablePeer>(id); });
  peer.link_id = link_of(1);
  EXPECT_EQ(peers_.set_inbound(peer), &before);
  EXPECT_EQ(peers_.inbound(link_of(1)), &peer);
  EXPECT_EQ(peers_.inbound(link_of(2)), &other);
}

TEST_F(PeerTableTest, APeerThatLeftIsRememberedUntilTooManyLeftAfterIt) {
  TablePeer& one = admit(1);
  TablePeer& two = admit(2);
  TablePeer& three = admit(3);
  EXPECT_EQ(peers_.inbound_connected(), 3U);
  EXPECT_EQ(peers_.left(one, 2), nullptr);
  EXPECT_EQ(peers_.left(two, 2), nullptr);
  EXPECT_EQ(peers_.inbound(link_of(1)), &one) << "it keeps its id if it comes back";
  EXPECT_EQ(peers_.inbound_connected(), 1U);
  const PeerId id = one.id;
  ASSERT_EQ(peers_.find(id), &one);
  const auto forgotten = peers_.left(three, 2);
  EXPECT_EQ(forgotten.get(), &one);
  EXPECT_EQ(peers_.inbound(link_of(1)), nullptr);
  EXPECT_EQ(peers_.find(id), nullptr) << "find() has it still as the one that was found last";
  EXPECT_EQ(peers_.inbound(link_of(2)), &two);
}

TEST_F(PeerTableTest, APeerThatCameBackIsNotForgotten) {
  TablePeer& one = admit(1);
  TablePeer& two = admit(2);
  EXPECT_EQ(peers_.left(one, 1), nullptr);
  peers_.came_back(one);
  EXPECT_EQ(peers_.inbound_connected(), 2U);
  EXPECT_EQ(peers_.left(two, 1), nullptr);
  EXPECT_EQ(peers_.find(one.id), &one);
}

TEST_F(PeerTableTest, APeerWhoseMemoryIsInUseIsKept) {
  TablePeer& busy = admit(1);
  busy.busy = true;
  TablePeer& idle = admit(2);
  EXPECT_EQ(peers_.left(busy, 0), nullptr);
  const auto forgotten = peers_.left(idle, 0);
  EXPECT_EQ(forgotten.get(), &idle);
  EXPECT_EQ(peers_.find(busy.id), &busy);
}

TEST_F(PeerTableTest, AForgottenPeerLeavesTheLinkToTheOneThatReplacedIt) {
  TablePeer& before = admit(1);
  TablePeer& peer = admit(1);
  const auto forgotten = peers_.left(before, 0);
  EXPECT_EQ(forgotten.get(), &before);
  EXPECT_EQ(peers_.inbound(link_of(1)), &peer);
}

}  // namespace
}  // namespace spate::bmi::protocol
