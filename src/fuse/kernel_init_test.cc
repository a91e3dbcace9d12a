// SPDX-License-Identifier: Apache-2.0
// The agreement with the kernel, as a later process of the mount finds it.
#include "fuse/kernel_init.h"

#include <linux/fuse.h>

#include <cstring>

#include "base/expect.h"

namespace spate::fuse {
namespace {

/// The record as an earlier process leaves it.
KernelInit agreed() {
  KernelInit init;
  init.size = sizeof(fuse_in_header) + sizeof(fuse_init_in);
  init.done = 1;
  init.abilities = kAbilities;
  return init;
}

TEST(KernelInitTest, ALaterProcessKeepsTheAgreedAbilities) {
  KernelInit init = agreed();
  EXPECT_OK(check_agreed(init));
  init.abilities = 0;
  init.size = static_cast<std::uint32_t>(init.request.size());
  EXPECT_OK(check_agreed(init));
}

TEST(KernelInitTest, ALaterProcessRefusesAnAgreementThatIsNotWhole) {
  KernelInit init = agreed();
  init.done = 0;
  EXPECT_ERRC(check_agreed(init), Errc::kCorrupt);
  init = agreed();
  init.size = static_cast<std::uint32_t>(init.request.size()) + 1;
  EXPECT_ERRC(check_agreed(init), Errc::kCorrupt);
}

/// The kernel relies on promises of a newer process, for example that rights are cleared at writes.
TEST(KernelInitTest, ALaterProcessRefusesAbilitiesThatItDoesNotKnow) {
  for (unsigned bit = 0; bit < 32; ++bit) {
    const std::uint32_t ability = 1U << bit;
    KernelInit init = agreed();
    init.abilities = ability;
    if ((ability & kAbilities) != 0)
      EXPECT_OK(check_agreed(init)) << bit;
    else
      EXPECT_ERRC(check_agreed(init), Errc::kVersionMismatch) << bit;
  }
}

/// The kernel's request as it is stored, and libfuse's answer to it.
class AddAbilitiesTest : public testing::Test {
 protected:
  void offer(std::uint32_t flags, std::uint32_t flags2) {
    fuse_init_in in{};
    in.flags = flags;
    in.flags2 = flags2;
    std::memcpy(init_.request.data() + sizeof(fuse_in_header), &in, sizeof in);
    init_.size = sizeof(fuse_in_header) + sizeof in;
  }
  void add(std::uint32_t wanted, std::size_t size = sizeof(fuse_init_out)) {
    const std::array<iovec, 2> answer{iovec{&header_, sizeof header_}, iovec{&out_, size}};
    add_abilities(init_, wanted, answer);
  }
  KernelInit init_;
  fuse_out_header header_{};
  fuse_init_out out_{};
};

TEST_F(AddAbilitiesTest, OnlyAbilitiesThatTheKernelOffersAndTheMountWantsAreAgreed) {
  offer(FUSE_SETXATTR_EXT | FUSE_HANDLE_KILLPRIV_V2, 0);
  add(kTellsOfSetgid | kMapsDirectIo);
  EXPECT_EQ(init_.abilities, std::uint32_t{kTellsOfSetgid});
  EXPECT_EQ(out_.flags, std::uint32_t{FUSE_SETXATTR_EXT});
  EXPECT_EQ(out_.flags2, 0U);
}

TEST_F(AddAbilitiesTest, AMessageThatDoesNotAnswerTheInitRequestIsNotChanged) {
  offer(FUSE_SETXATTR_EXT, 0);
  add(kTellsOfSetgid, sizeof(fuse_init_out) - 4);
  EXPECT_EQ(init_.abilities, 0U);
  EXPECT_EQ(out_.flags, 0U);
}

/// A damaged length must not lead beyond the record.
TEST_F(AddAbilitiesTest, ARequestThatIsTooLongOffersNothing) {
  offer(FUSE_SETXATTR_EXT, 0);
  init_.size = static_cast<std::uint32_t>(init_.request.size()) + 1;
  add(kTellsOfSetgid);
  EXPECT_EQ(init_.abilities, 0U);
  EXPECT_FALSE(offers_resend(init_)) << "an ability was read from beyond the record";
}

}  // namespace
}  // namespace spate::fuse
