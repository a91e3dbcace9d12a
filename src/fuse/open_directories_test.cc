// SPDX-License-Identifier: Apache-2.0
#include "fuse/open_directories.h"

#include <sys/mman.h>

#include "base/expect.h"
#include "base/unique_fd.h"

namespace spate::fuse {
namespace {

class OpenDirectoriesTest : public ::testing::Test {
 protected:
  OpenDirectoriesTest() { next_process(); }
  void next_process() {
    directories_.reset();
    handover_.reset();
    handover_ = client::HandoverState::open(memory_.get()).value();
    directories_.emplace(*handover_);
  }
  std::uint64_t add(Handle handle, std::uint64_t request_id) {
    Attributes attributes;
    attributes.handle = handle;
    attributes.mode = 0750;
    return directories_->add(handle, attributes, request_id);
  }

  UniqueFd memory_{::memfd_create("handover", MFD_CLOEXEC)};
  std::unique_ptr<client::HandoverState> handover_;
  std::optional<OpenDirectories> directories_;
};

TEST_F(OpenDirectoriesTest, TheNextProcessesKnowTheAttributesOfOpenDirectories) {
  const std::uint64_t one = add(Handle(7), 4);
  const std::uint64_t two = add(Handle(7), 6);
  for (int process = 0; process < 3; ++process) {
    const auto removed = directories_->removed(Handle(7));
    ASSERT_TRUE(removed.has_value()) << process;
    EXPECT_EQ(removed->handle, Handle(7)) << process;
    EXPECT_EQ(removed->mode, 0750U) << process;
    EXPECT_EQ(removed->link_count, 0U) << process;
    next_process();
  }
  directories_->remove(one);
  EXPECT_TRUE(directories_->removed(Handle(7)).has_value()) << "it is open";
  directories_->remove(two);
  EXPECT_FALSE(directories_->removed(Handle(7)).has_value()) << "every open has ended";
  next_process();
  EXPECT_FALSE(directories_->removed(Handle(7)).has_value()) << "every open has ended";
}

/// The process was killed before it could answer, so the kernel knows only the second number.
TEST_F(OpenDirectoriesTest, ARepeatedRequestOpensItOnce) {
  add(Handle(7), 4);
  next_process();
  const std::uint64_t number = add(Handle(7), 4);
  directories_->remove(number);
  EXPECT_FALSE(directories_->removed(Handle(7)).has_value()) << "the next process knows no open";
}

}  // namespace
}  // namespace spate::fuse
