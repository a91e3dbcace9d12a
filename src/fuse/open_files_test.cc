// SPDX-License-Identifier: Apache-2.0
#include "fuse/open_files.h"

#include <sys/mman.h>

#include "base/expect.h"
#include "base/unique_fd.h"

namespace spate::fuse {
namespace {

constexpr Handle kOpened{11};

class OpenFilesTest : public ::testing::Test {
 protected:
  OpenFilesTest() { next_process(); }
  void next_process() {
    files_.reset();
    handover_.reset();
    handover_ = client::HandoverState::open(memory_.get()).value();
    files_.emplace(*handover_);
  }
  std::shared_ptr<OpenFile> open(Handle file) {
    number_ = files_->add({nullptr, file, wire::kOpenRead, false, 4, true});
    return files_->find(number_);
  }

  UniqueFd memory_{::memfd_create("handover", MFD_CLOEXEC)};
  std::unique_ptr<client::HandoverState> handover_;
  std::optional<OpenFiles> files_;
  std::uint64_t number_ = 0;
};

TEST_F(OpenFilesTest, AnAtimeThatIsSetEndsWhatOpensOfTheFileHaveRead) {
  const auto one = open(kOpened);
  const auto other = open(Handle(12));
  for (const auto& file : {one, other}) file->note_read(WallTime{5});
  files_->forget_reads(kOpened);
  EXPECT_EQ(one->record->close_atime, std::nullopt);
  EXPECT_EQ(other->record->close_atime, WallTime{5});
}

/// The next process repeats the request as it was, or the server would close another open of the file.
TEST_F(OpenFilesTest, ACloseThatWasSentStaysAsItIs) {
  const auto file = open(kOpened);
  file->note_read(WallTime{5});
  file->record->closing = true;
  next_process();
  EXPECT_EQ(files_->find(number_), nullptr);
  files_->forget_reads(kOpened);
  const auto left = files_->take_left();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0]->record->close_atime, WallTime{5});
}

TEST_F(OpenFilesTest, TheNextProcessKnowsWhenAnOpenWasRead) {
  open(kOpened)->note_read(WallTime{5});
  next_process();
  const auto file = files_->find(number_);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->record->close_atime, WallTime{5});
}

}  // namespace
}  // namespace spate::fuse
