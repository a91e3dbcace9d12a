// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/credit.h"

#include "base/expect.h"
#include "base/random.h"
#include "bmi/protocol/limits.h"

namespace spate::bmi::protocol {
namespace {

TEST(ProtocolCredit, TheReserveIsNotSpent) {
  SendCredit credit{.available = 100};
  EXPECT_FALSE(credit.take(60, 50)) << "it would spend 10 of the reserve";
  EXPECT_TRUE(credit.take(50, 50)) << "it leaves the reserve";
  EXPECT_FALSE(credit.take(1, 50)) << "only the reserve is left";
  EXPECT_TRUE(credit.take(50, 0)) << "the caller may spend the reserve";
  EXPECT_FALSE(credit.take(1, 0)) << "nothing is left";
}

TEST(ProtocolCredit, MoreThanCanBeCountedIsRefused) {
  SendCredit credit;
  EXPECT_TRUE(credit.give(UINT32_MAX)) << "as much as a frame can give";
  credit.available = std::uint64_t{1} << 48U;
  EXPECT_FALSE(credit.give(1)) << "the credit is " << credit.available;
}

TEST(ProtocolCredit, DetectsAPeerThatSendsMoreThanItsWindow) {
  ReceiveCredit credit;
  EXPECT_TRUE(credit.charge(60, 100)) << "60 of 100";
  EXPECT_FALSE(credit.charge(41, 100)) << "101 of 100";
  EXPECT_TRUE(credit.charge(40, 100)) << "100 of 100";
  EXPECT_FALSE(credit.charge(UINT64_MAX, 100)) << "a sum that wraps";
  credit.consume(60);
  EXPECT_FALSE(credit.charge(1, 100)) << "not given back yet";
  EXPECT_EQ(credit.take_owed(), 60U);
  EXPECT_TRUE(credit.charge(60, 100)) << "60 were given back";
}

// If neither end breaks the rules, no message is refused, the receiver never holds more than the window, and all credit
// is free again at the end.
TEST(ProtocolCredit, TheTwoHalvesAgree) {
  SeededRandom random(7);
  constexpr std::uint64_t kWindow = 10'000;
  SendCredit sender{.available = kWindow};
  ReceiveCredit receiver;
  std::vector<std::uint64_t> kept;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t cost = cost_of(random.below(3000));
    if (random.chance(1, 2) && sender.take(cost, 0)) {
      ASSERT_TRUE(receiver.charge(cost, kWindow)) << "the receiver refuses a message that the sender had credit for";
      kept.push_back(cost);
    } else if (!kept.empty()) {
      receiver.consume(kept.back());
      kept.pop_back();
    }
    if (random.chance(1, 3)) {
      ASSERT_TRUE(sender.give(receiver.take_owed())) << "the sender refuses the credit that it spent";
    }
    ASSERT_LE(receiver.held, kWindow);
  }
  for (const std::uint64_t cost : kept) receiver.consume(cost);
  ASSERT_TRUE(sender.give(receiver.take_owed())) << "the sender refuses the credit that it spent";
  EXPECT_EQ(sender.available, kWindow);
  EXPECT_EQ(receiver.held, 0U);
}

// The credit that a receiver may keep back never starves the largest unexpected message.
TEST(ProtocolCredit, CreditThatIsKeptBackLeavesRoomForTheLargestMessage) {
  for (const std::uint64_t largest : {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{256 * 1024}}) {
    for (const std::uint64_t extra : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1 << 20}}) {
      const Limits limits{cost_of(largest) + extra, largest, 1, 4096};
      const std::uint64_t back = kept_back(limits, MessageClass::kControl);
      EXPECT_LE(reserve_of(limits, MessageClass::kControl), limits.window);
      EXPECT_GE(reserve_of(limits, MessageClass::kControl) - back, cost_of(largest));
    }
  }
}

}  // namespace
}  // namespace spate::bmi::protocol
