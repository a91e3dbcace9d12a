// SPDX-License-Identifier: Apache-2.0
// Sending ranges of open files.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/unique_fd.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

constexpr std::uint64_t kFileTag = 99;

UniqueFd file_of(std::size_t size) {
  UniqueFd fd(memfd_create("bmi_conformance", MFD_CLOEXEC));
  const Bytes data = pattern(kFileTag, 0, size);
  EXPECT_EQ(::pwrite(fd.get(), data.data(), data.size(), 0), static_cast<ssize_t>(size));
  return fd;
}

TEST_P(Bmi, FileRangesOfEverySize) {
  if (!world_->traits().file_segments) GTEST_SKIP() << "this module sends memory only";
  const Pair pair = start_pair();
  constexpr std::size_t kFile = 3'000'000;
  const UniqueFd fd = file_of(kFile);
  const Bytes whole = pattern(kFileTag, 0, kFile);
  std::uint64_t tag = 1;
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4096}, std::size_t{16 * 1024}, std::size_t{100'001}, std::size_t{2'000'000}}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{777'777}}) {
      SCOPED_TRACE(testing::Message() << size << " at " << offset);
      Bytes room(size);
      const std::array<Segment, 1> segments{Segment::of_file(fd.get(), offset, size)};
      const OpId in = recv(*pair.server, {pair.to_client, ++tag, MessageClass::kBulk}, room);
      const OpId out = send_list(*pair.client, {pair.to_server, tag, MessageClass::kBulk}, segments);
      EXPECT_EQ(finish(*pair.server, in).actual_size, size);
      EXPECT_EQ(finish(*pair.client, out).actual_size, size);
      EXPECT_BYTES(room, ByteView(whole).subspan(offset, size));
    }
  }
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_CUR), 0) << "the descriptor's own offset is the caller's";
}

TEST_P(Bmi, ZerosBeyondTheEndOfTheFile) {
  if (!world_->traits().file_segments) GTEST_SKIP() << "this module sends memory only";
  const Pair pair = start_pair();
  const UniqueFd fd = file_of(10'000);
  std::uint64_t tag = 1;
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{9'999}, std::uint64_t{10'000}, std::uint64_t{1} << 40}) {
    for (const std::size_t size : {std::size_t{12'000}, std::size_t{900'000}}) {
      SCOPED_TRACE(testing::Message() << size << " at " << offset);
      Bytes want(size);
      if (offset < 10'000) {
        const Bytes data = pattern(kFileTag, 0, 10'000);
        std::copy(data.begin() + static_cast<std::ptrdiff_t>(offset), data.end(), want.begin());
      }
      Bytes room(size, std::byte{0xEE});
      const std::array<Segment, 1> segments{Segment::of_file(fd.get(), offset, size)};
      const OpId in = recv(*pair.server, {pair.to_client, ++tag}, room);
      const OpId out = send_list(*pair.client, {pair.to_server, tag}, segments);
      EXPECT_EQ(finish(*pair.server, in).actual_size, size);
      EXPECT_EQ(finish(*pair.client, out).status, Errc::kOk);
      EXPECT_BYTES(room, want);
    }
  }
}

TEST_P(Bmi, MemoryAndFilesInOneList) {
  if (!world_->traits().file_segments) GTEST_SKIP() << "this module sends memory only";
  const Pair pair = start_pair();
  const UniqueFd fd = file_of(500'000);
  for (const std::size_t piece : {std::size_t{100}, std::size_t{150'000}}) {
    SCOPED_TRACE(piece);
    Bytes head = pattern(1, 1, 33);
    Bytes tail = pattern(1, 2, 65);
    const std::array<Segment, 5> segments{Segment::of(MutableByteView(head)), Segment::of_file(fd.get(), 10, piece),
                                          Segment::of_file(fd.get(), 300'000, piece),
                                          Segment::of(MutableByteView(tail)), Segment::of_file(fd.get(), 499'950, 100)};
    const Bytes file = pattern(kFileTag, 0, 500'000);
    Bytes want = head;
    want.insert(want.end(), file.begin() + 10, file.begin() + 10 + static_cast<std::ptrdiff_t>(piece));
    want.insert(want.end(), file.begin() + 300'000, file.begin() + 300'000 + static_cast<std::ptrdiff_t>(piece));
    want.insert(want.end(), tail.begin(), tail.end());
    want.insert(want.end(), file.end() - 50, file.end());
    want.resize(want.size() + 50);
    Bytes room(want.size(), std::byte{1});
    const OpId in = recv(*pair.server, {pair.to_client, piece, MessageClass::kBulk}, room);
    const OpId out = send_list(*pair.client, {pair.to_server, piece, MessageClass::kBulk}, segments);
    EXPECT_EQ(finish(*pair.server, in).actual_size, want.size());
    EXPECT_EQ(finish(*pair.client, out).status, Errc::kOk);
    EXPECT_BYTES(room, want);
  }
}

TEST_P(Bmi, FileRangesInReadyAndUnexpectedMessages) {
  if (!world_->traits().file_segments) GTEST_SKIP() << "this module sends memory only";
  const Pair pair = start_pair();
  const UniqueFd fd = file_of(400'000);
  const std::array<Segment, 1> segments{Segment::of_file(fd.get(), 0, 400'000)};
  Bytes room(400'000);
  const OpId in = recv(*pair.server, {pair.to_client, 1, MessageClass::kBulk}, room);
  const OpId out = send_list(
      *pair.client, {.peer = pair.to_server, .tag = 1, .message_class = MessageClass::kBulk, .receiver_ready = true},
      segments);
  EXPECT_EQ(finish(*pair.server, in).status, Errc::kOk);
  EXPECT_EQ(finish(*pair.client, out).status, Errc::kOk);
  EXPECT_EQ(first_difference(room, kFileTag, 0), std::nullopt);

  const std::array<Segment, 1> few{Segment::of_file(fd.get(), 0, 5000)};
  const Message message{pair.to_server, Tag{2}, MessageClass::kControl, few};
  const OpId op = posted(*pair.client, (*pair.client)->post_send_unexpected(message, pair.client->context, nullptr));
  EXPECT_EQ(finish(*pair.client, op).status, Errc::kOk);
  ASSERT_TRUE(drive([&] { return !pair.server->arrived.empty(); })) << "nothing has arrived";
  EXPECT_EQ(first_difference(pair.server->arrived.front().payload.view(), kFileTag, 0), std::nullopt);
}

TEST_P(Bmi, FilesCannotBeReceivedInto) {
  const Pair pair = start_pair();
  const UniqueFd fd = file_of(100);
  const std::array<Segment, 1> segments{Segment::of_file(fd.get(), 0, 100)};
  EXPECT_ERRC(
      (*pair.server)->post_recv({pair.to_client, Tag{1}, MessageClass::kBulk, segments}, pair.server->context, nullptr),
      Errc::kInvalidArgument);
}

// The store fails, or the descriptor is invalid. That is an error of this send, and perhaps the end of its connection,
// but never a short message.
TEST_P(Bmi, AFileThatCannotBeReadFailsItsSend) {
  if (!world_->traits().file_segments) GTEST_SKIP() << "this module sends memory only";
  const Pair pair = start_pair();
  const UniqueFd write_only(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(write_only);
  for (const std::size_t size : {std::size_t{1000}, std::size_t{1'000'000}}) {
    SCOPED_TRACE(size);
    const Address to_client = introduce(*pair.client, pair.to_server, *pair.server);
    Bytes room(size);
    const std::array<Segment, 1> segments{Segment::of_file(write_only.get(), 0, size)};
    const OpId in = recv(*pair.server, {to_client, 1}, room);
    const std::array<Segment, 1>& list = segments;
    const Result<Posted> out =
        (*pair.client)
            ->post_send({pair.to_server, Tag{1}, MessageClass::kControl, list}, pair.client->context, nullptr);
    if (out) EXPECT_NE(finish(*pair.client, posted(*pair.client, out)).status, Errc::kOk);
    settle();
    if (is_done(*pair.server, in)) EXPECT_NE(pair.server->done.at(in).status, Errc::kOk);
    (*pair.server)->cancel(in);
    finish(*pair.server, in);
  }
  expect_passes({pair.client, pair.server, pair.to_server, introduce(*pair.client, pair.to_server, *pair.server)}, 5,
                1000);
}

}  // namespace
}  // namespace spate::bmi::conformance
