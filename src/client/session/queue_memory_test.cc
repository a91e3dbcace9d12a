// SPDX-License-Identifier: Apache-2.0
#include "client/session/queue_memory.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/unique_fd.h"
#include "wire/meta_messages.h"

namespace spate::client {
namespace {

constexpr std::size_t kFront = 65536;

class QueueMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<QueueMemory> open(std::size_t ring = 4096) {
    auto memory = QueueMemory::open(fd_.get(), kFront + ring);
    EXPECT_OK(memory);
    return memory ? *std::move(memory) : nullptr;
  }
  static QueueMemory::Record of(std::uint64_t handle, std::size_t body = 100) {
    QueueMemory::Record record;
    record.op = wire::Op::kMkdir;
    record.object = Handle(handle);
    record.makes = true;
    record.at = WallTime{static_cast<std::int64_t>(handle) * 10};
    record.body = Bytes(body, static_cast<std::byte>(handle));
    return record;
  }
  static std::vector<std::uint64_t> objects(const QueueMemory& memory) {
    std::vector<std::uint64_t> out;
    for (const QueueMemory::Record& record : memory.after(0, 1000, 1U << 30U)) out.push_back(record.object.value);
    return out;
  }

  UniqueFd fd_{::memfd_create("queue", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  const QueueMemory::Owner owner_{ClientId(5), 3};
};

TEST_F(QueueMemoryTest, ANextProcessFindsTheRecordsInTheirOrder) {
  auto first = open();
  first->begin(owner_);
  EXPECT_EQ(first->append(of(7)), 1U);
  EXPECT_EQ(first->append(of(8, 0)), 2U);
  EXPECT_EQ(first->append(of(9, 333)), 3U);
  first->drop_until(1);
  first.reset();
  const auto next = open();
  EXPECT_TRUE(next->inherited());
  EXPECT_EQ(next->owner(), owner_);
  EXPECT_THAT(objects(*next), ::testing::ElementsAre(8, 9));
  const QueueMemory::Record found = next->after(2, 10, 1000).front();
  EXPECT_EQ(found.number, 3U);
  EXPECT_EQ(found.op, wire::Op::kMkdir);
  EXPECT_TRUE(found.makes);
  EXPECT_EQ(found.at, WallTime{90});
  EXPECT_BYTES(found.body, Bytes(333, std::byte{9}));
  EXPECT_EQ(next->append(of(10)), 4U);
}

TEST_F(QueueMemoryTest, NumbersGoOnWhenNoRecordIsLeft) {
  auto first = open();
  first->begin(owner_);
  first->append(of(7));
  first->append(of(8));
  first->drop_until(2);
  first.reset();
  const auto next = open();
  EXPECT_FALSE(next->inherited());
  EXPECT_EQ(next->last(), 2U);
  EXPECT_EQ(next->append(of(9)), 3U);
  next->begin({ClientId(5), 4});
  EXPECT_EQ(next->append(of(9)), 1U) << "another epoch";
  next->begin({ClientId(5), 5}, 70);
  EXPECT_EQ(open()->append(of(9)), 71U);
}

TEST_F(QueueMemoryTest, IsBoundedAndUsedRoundAndRound) {
  const auto memory = open(1000);
  memory->begin(owner_);
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  for (int round = 0; round < 200; ++round) {
    while (memory->append(of(in + 1, 50 + in * 13 % 200)) != 0) ++in;
    EXPECT_GT(memory->size(), 2U);
    const QueueMemory::Record oldest = memory->after(0, 1, 1).front();
    ++out;
    EXPECT_EQ(oldest.number, out);
    EXPECT_EQ(oldest.object, Handle(out));
    EXPECT_BYTES(oldest.body, Bytes(50 + (out - 1) * 13 % 200, static_cast<std::byte>(out)));
    memory->drop_until(out);
  }
}

TEST_F(QueueMemoryTest, ABatchIsBoundedInChangesAndBytes) {
  const auto memory = open();
  memory->begin(owner_);
  for (std::uint64_t i = 1; i <= 10; ++i) memory->append(of(i));
  EXPECT_THAT(memory->after(0, 3, 10000), ::testing::SizeIs(3));
  EXPECT_THAT(memory->after(0, 100, 250), ::testing::SizeIs(2));
  EXPECT_THAT(memory->after(4, 100, 1), ::testing::SizeIs(1));
  EXPECT_THAT(memory->after(10, 100, 1), ::testing::IsEmpty());
}

TEST_F(QueueMemoryTest, HandlesAreTakenOnceAndInTheirOrder) {
  auto first = open();
  first->begin(owner_);
  EXPECT_EQ(first->take_handle(), Handle());
  EXPECT_TRUE(first->add_range({100, 2}));
  EXPECT_TRUE(first->add_range({200, 3}));
  EXPECT_FALSE(first->add_range({300, 3}));
  EXPECT_FALSE(first->add_range({200, 3})) << "the server has told it twice";
  EXPECT_EQ(first->handles_left(), 5U);
  EXPECT_EQ(first->take_handle(), Handle(100));
  EXPECT_EQ(first->take_handle(), Handle(101));
  EXPECT_EQ(first->take_handle(), Handle(200));
  EXPECT_TRUE(first->add_range({300, 1})) << "the first is used up";
  first.reset();
  const auto next = open();
  EXPECT_EQ(next->handles_left(), 3U);
  EXPECT_EQ(next->take_handle(), Handle(201));
  EXPECT_EQ(next->take_handle(), Handle(202));
  EXPECT_EQ(next->take_handle(), Handle(300));
  EXPECT_EQ(next->take_handle(), Handle());
}

TEST_F(QueueMemoryTest, ANextProcessKnowsTheCallsThatWereNotAnswered) {
  auto first = open();
  first->begin(owner_);
  QueueMemory::Record record = of(7);
  record.request_id = 71;
  first->append(record);
  record = of(8);
  record.request_id = 81;
  first->append(record);
  first->call_answered(71);
  first->drop_until(2);
  first.reset();
  const auto next = open();
  EXPECT_FALSE(next->inherited_call(71));
  EXPECT_EQ(next->inherited_call(81).value().object, Handle(8));
  EXPECT_EQ(next->inherited_call(81).value().op, wire::Op::kMkdir);
}

TEST_F(QueueMemoryTest, RefusesMemoryOfAnotherVersion) {
  std::ignore = open();
  const std::uint64_t other = 99;
  ASSERT_EQ(::pwrite(fd_.get(), &other, sizeof(other), sizeof(other)), static_cast<ssize_t>(sizeof(other)));
  EXPECT_ERRC(QueueMemory::open(fd_.get(), kFront + 4096), Errc::kVersionMismatch);
}

TEST_F(QueueMemoryTest, ItsTextNamesTheChange) {
  wire::MkdirRequest request;
  request.where.start = Handle(3);
  request.where.path = "a\" error=\"none";
  QueueMemory::Record record = of(7);
  record.body.clear();
  wire::encode_body(request, record.body);
  EXPECT_EQ(QueueMemory::text(record), R"(change=mkdir inode=7 directory=3 name="a\" error=\"none")");
}

/// The process is killed between any two words that it writes, in the order in which it writes them. The next one finds
/// a record as a whole or not at all, with the right number, and the call only together with its record.
TEST_F(QueueMemoryTest, AKillBetweenAnyTwoWritesLeavesARecordAsAWholeOrNotAtAll) {
  const std::size_t bytes = kFront + 4096;
  auto memory = open();
  memory->begin(owner_);
  memory->append(of(7));
  std::vector<char> before(bytes);
  std::vector<char> after(bytes);
  ASSERT_EQ(::pread(fd_.get(), before.data(), bytes, 0), static_cast<ssize_t>(bytes));
  QueueMemory::Record record = of(8);
  record.request_id = 81;
  memory->append(record);
  ASSERT_EQ(::pread(fd_.get(), after.data(), bytes, 0), static_cast<ssize_t>(bytes));
  // The header's `end` is published last, and the id of a call behind the rest of its slot.
  std::vector<std::size_t> words;
  for (std::size_t at = 0; at < bytes; at += 8) {
    if (std::memcmp(&before[at], &after[at], 8) != 0) words.push_back(at);
  }
  constexpr std::size_t kEnd = 6 * 8;
  constexpr std::size_t kCallId = 14 * 8;
  ASSERT_THAT(words, ::testing::Contains(kEnd));
  const auto id = std::find(words.begin(), words.end(), kCallId);
  ASSERT_LT(id, words.end() - 3);
  std::rotate(id, id + 1, id + 4);
  for (std::size_t kept = 0; kept < words.size(); ++kept) {
    std::vector<char> state = before;
    std::size_t copied = 0;
    for (const std::size_t at : words) {
      if (at != kEnd && copied++ < kept) std::memcpy(&state[at], &after[at], 8);
    }
    ASSERT_EQ(::pwrite(fd_.get(), state.data(), bytes, 0), static_cast<ssize_t>(bytes));
    const auto next = open();
    EXPECT_THAT(objects(*next), ::testing::ElementsAre(7)) << kept;
    EXPECT_FALSE(next->inherited_call(81)) << kept;
    EXPECT_EQ(next->append(of(9)), 2U);
    EXPECT_FALSE(next->inherited_call(81)) << "the number is another change's";
  }
  ASSERT_EQ(::pwrite(fd_.get(), after.data(), bytes, 0), static_cast<ssize_t>(bytes));
  EXPECT_THAT(objects(*open()), ::testing::ElementsAre(7, 8));
}

/// As above, for drop_until(): `dropped` is stored before `begin`.
TEST_F(QueueMemoryTest, AKillWhileRecordsAreDroppedKeepsTheNumbers) {
  auto memory = open();
  memory->begin(owner_);
  memory->append(of(7));
  memory->append(of(8));
  memory.reset();
  const std::uint64_t dropped = 2;
  constexpr off_t kDropped = 7 * 8;
  ASSERT_EQ(::pwrite(fd_.get(), &dropped, sizeof(dropped), kDropped), static_cast<ssize_t>(sizeof(dropped)));
  const auto next = open();
  EXPECT_THAT(objects(*next), ::testing::ElementsAre(7, 8));
  EXPECT_EQ(next->append(of(9)), 3U);
}

/// A new session begins, and the process is killed before it has a number.
TEST_F(QueueMemoryTest, AKillWhileASessionBeginsLeavesNoOwner) {
  auto memory = open();
  memory->begin(owner_);
  memory->append(of(7));
  memory.reset();
  const std::uint64_t none = 0;
  constexpr off_t kOwnerKnown = 2 * 8;
  ASSERT_EQ(::pwrite(fd_.get(), &none, sizeof(none), kOwnerKnown), static_cast<ssize_t>(sizeof(none)));
  const auto next = open();
  EXPECT_FALSE(next->inherited());
  EXPECT_EQ(next->owner(), QueueMemory::Owner());
}

/// The log of a mount that is given up has these.
TEST_F(QueueMemoryTest, WhatReadersHaveOpenedAndClosedIsNoLoss) {
  const auto memory = open();
  memory->begin(owner_);
  const auto append = [&](std::uint64_t handle, wire::Op op, const auto& request) {
    QueueMemory::Record record = of(handle);
    record.op = op;
    record.makes = false;
    record.body.clear();
    wire::encode_body(request, record.body);
    EXPECT_NE(memory->append(record), 0U);
  };
  append(1, wire::Op::kOpen, wire::OpenRequest());
  wire::CloseRequest close;
  close.rights = Rights::kRead;
  append(2, wire::Op::kClose, close);
  close.atime = WallTime{5};
  append(3, wire::Op::kClose, close);
  EXPECT_THAT(memory->texts(), ::testing::IsEmpty());
  close.rights = Rights::kReadWrite;
  append(4, wire::Op::kClose, close);
  append(5, wire::Op::kSetattr, wire::SetattrRequest());
  EXPECT_THAT(memory->texts(), ::testing::ElementsAre("change=close inode=4", "change=setattr inode=5"));
}

}  // namespace
}  // namespace spate::client
