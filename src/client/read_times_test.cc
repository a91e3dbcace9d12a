// SPDX-License-Identifier: Apache-2.0
#include "client/read_times.h"

#include <optional>

#include "base/expect.h"

namespace spate::client {
namespace {

constexpr Handle kFile{7};
constexpr Handle kOther{8};

TEST(ReadTimes, AnAtimeThatIsSetEndsWhatOpensOfTheFileHaveRead) {
  ReadTimes reads;
  ReadTimes::Open one(reads, kFile);
  ReadTimes::Open two(reads, kFile);
  ReadTimes::Open other(reads, kOther);
  EXPECT_FALSE(reads.has(kFile)) << "nothing was read";
  for (ReadTimes::Open* const open : {&one, &two, &other}) open->note(WallTime{5});
  EXPECT_TRUE(reads.has(kFile)) << "the open has read";
  wire::SetattrRequest request;
  Attributes now;
  now.handle = kFile;
  EXPECT_OK(reads.answered(request, now));
  EXPECT_EQ(one.at(), WallTime{5});
  request.atime_now = true;
  EXPECT_ERRC(reads.answered(request, Errc::kNotPermitted), Errc::kNotPermitted);
  EXPECT_EQ(one.at(), WallTime{5});
  EXPECT_OK(reads.answered(request, now));
  EXPECT_EQ(one.at(), std::nullopt);
  EXPECT_EQ(two.at(), std::nullopt);
  EXPECT_EQ(other.at(), WallTime{5});
  EXPECT_FALSE(reads.has(kFile)) << "the open has ended";
  two.note(WallTime{9});  // a later read counts
  EXPECT_EQ(two.at(), WallTime{9});
}

TEST(ReadTimes, AnOpenThatEndsIsForgotten) {
  ReadTimes reads;
  ReadTimes::Open stays(reads, kFile);
  stays.note(WallTime{5});
  {
    ReadTimes::Open ends(reads, kFile);
    ends.note(WallTime{6});
  }
  reads.forget(kFile);
  EXPECT_EQ(stays.at(), std::nullopt);
}

/// A program keeps the files of a client that has ended until it destroys them.
TEST(ReadTimes, AnOpenMayOutliveTheClient) {
  std::optional<ReadTimes> reads(std::in_place);
  ReadTimes::Open open(*reads, kFile);
  open.note(WallTime{5});
  reads.reset();
  EXPECT_EQ(open.at(), WallTime{5});
}

}  // namespace
}  // namespace spate::client
