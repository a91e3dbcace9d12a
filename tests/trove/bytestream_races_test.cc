// SPDX-License-Identifier: Apache-2.0
// Several operations in flight, random operations compared with a model, and the data that survives a restart.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/random.h"
#include "trove/bytestream_harness.h"

namespace spate::trove {
namespace {

struct Piece {
  std::uint64_t offset;
  Bytes data;
};

/// Cuts [0, size) into pieces of odd sizes, in random order.
std::vector<Piece> cut(Random& random, const Bytes& whole, std::size_t largest) {
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t size = std::min(whole.size() - at, 1 + static_cast<std::size_t>(random.below(largest)));
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>(at);
    pieces.push_back({at, Bytes(from, from + static_cast<std::ptrdiff_t>(size))});
    at += size;
  }
  for (std::size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.below(i)]);
  return pieces;
}

TEST_P(BytestreamTest, ConcurrentWritesThatCreateMeetInOneDatafile) {
  std::vector<Bytes> parts;
  for (std::uint64_t i = 0; i < 8; ++i) parts.push_back(pattern(i, 1000));
  for (std::uint64_t handle = 1; handle <= 20; ++handle) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      post(BytestreamOp::kWrite, id(handle), {{i * 1000, 1000}}, {parts[i]});
  }
  wait_all();
  for (std::uint64_t handle = 1; handle <= 20; ++handle) {
    for (std::size_t i = 0; i < parts.size(); ++i) ASSERT_EQ(read(id(handle), i * 1000, 1000), parts[i]);
  }
  EXPECT_EQ(streams().list({}, 1000).value().size(), 20U);
}

TEST_P(BytestreamTest, ConcurrentDisjointWritesAreExactToTheByte) {
  SeededRandom random(1);
  const Bytes whole = pattern(3, 400'000);
  write(id(1), 0, pattern(4, 400'000));
  std::vector<Piece> pieces = cut(random, whole, 5000);
  std::vector<OwnedRequest*> posted;
  for (Piece& piece : pieces) {
    posted.push_back(&post(BytestreamOp::kWrite, id(1), {{piece.offset, piece.data.size()}}, {piece.data}));
  }
  for (OwnedRequest* one : posted) EXPECT_EQ(wait(*one).status, Errc::kOk);
  EXPECT_EQ(read(id(1), 0, whole.size() + 1), whole);
}

TEST_P(BytestreamTest, MoreOperationsThanAnyQueueHolds) {
  SeededRandom random(2);
  const Bytes whole = pattern(5, 30'000);
  std::vector<Piece> pieces = cut(random, whole, 20);
  for (Piece& piece : pieces) post(BytestreamOp::kWrite, id(1), {{piece.offset, piece.data.size()}}, {piece.data});
  wait_all();
  Bytes back(whole.size());
  for (std::size_t i = 0; i < 3000; ++i) {
    post(BytestreamOp::kRead, id(1), {{i * 10, 10}}, {MutableByteView(back).subspan(i * 10, 10)});
  }
  wait_all();
  EXPECT_EQ(back, whole);
}

TEST_P(BytestreamTest, ReadsDuringTruncatesSeeOldBytesOrZeros) {
  const Bytes data = pattern(6, 100'000);
  SeededRandom random(3);
  for (int round = 0; round < 20; ++round) {
    write(id(1), 0, data);
    std::vector<Bytes> outs(12, Bytes(20'000));
    std::vector<std::pair<OwnedRequest*, std::uint64_t>> reads;
    for (std::size_t i = 0; i < outs.size(); ++i) {
      const std::uint64_t offset = random.below(80'000);
      reads.emplace_back(&post(BytestreamOp::kRead, id(1), {{offset, 20'000}}, {outs[i]}), offset);
      if (i % 4 != 1) continue;
      OwnedRequest cut_off;
      cut_off.request.op = BytestreamOp::kTruncate;
      cut_off.request.id = id(1);
      cut_off.request.size = random.below(100'000);
      post_request(std::move(cut_off));
    }
    for (std::size_t i = 0; i < outs.size(); ++i) {
      const BytestreamCompletion& done = wait(*reads[i].first);
      ASSERT_EQ(done.status, Errc::kOk);
      // One assertion a read, not one a byte: there are millions of bytes.
      std::size_t at = 0;
      while (at < done.bytes && (outs[i][at] == data[reads[i].second + at] || outs[i][at] == std::byte{0})) ++at;
      ASSERT_EQ(at, done.bytes) << "here it is neither the old byte nor a zero";
    }
    wait_all();
  }
}

TEST_P(BytestreamTest, RemovalDuringWritesLeavesAllOrNothingOfEach) {
  Bytes first = pattern(7, 3000);
  Bytes second = pattern(8, 3000);
  for (std::uint64_t handle = 1; handle <= 30; ++handle) {
    post(BytestreamOp::kWrite, id(handle), {{0, 3000}}, {first});
    post(BytestreamOp::kRemove, id(handle));
    post(BytestreamOp::kWrite, id(handle), {{3000, 3000}}, {second});
  }
  wait_all();
  for (std::uint64_t handle = 1; handle <= 30; ++handle) {
    const Bytes found = read(id(handle), 0, 6000);
    Bytes low(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(3000, found.size())));
    Bytes high(found.begin() + static_cast<std::ptrdiff_t>(low.size()), found.end());
    EXPECT_THAT(low, ::testing::AnyOf(::testing::IsEmpty(), first, Bytes(3000)));
    EXPECT_THAT(high, ::testing::AnyOf(::testing::IsEmpty(), second));
  }
  restart();  // after a restart, the store opens files by their names
  for (std::uint64_t handle = 1; handle <= 30; ++handle) {
    write(id(handle), 0, first);
    EXPECT_EQ(read(id(handle), 0, 3000), first);
  }
}

TEST_P(BytestreamTest, RestartKeepsContentCountersAndTimes) {
  std::map<DatafileId, BytestreamStat> before;
  for (std::uint64_t handle = 1; handle <= 40; ++handle) {  // more than the store keeps open
    write(id(handle), 10 * handle, pattern(handle, 100));
    if (handle % 3 == 0) truncate(id(handle), 10 * handle + 50);
    if (handle % 4 == 0) run(BytestreamOp::kSync, id(handle));
    before[id(handle)] = stat(id(handle));
  }
  for (int times = 0; times < 2; ++times) {
    restart();
    for (const auto& [datafile, was] : before) {
      const BytestreamStat is = stat(datafile);
      EXPECT_EQ(is.size, was.size);
      EXPECT_EQ(is.change_counter, was.change_counter);
      EXPECT_EQ(is.mtime, was.mtime);
    }
  }
  EXPECT_EQ(read(id(5), 50, 100), pattern(5, 100));
  now.ns -= 3'600'000'000'000;  // the clock has even gone back
  EXPECT_GT(write(id(5), 0, pattern(1, 1)).stat.change_counter, before[id(5)].change_counter);
  EXPECT_EQ(streams().list({}, 100).value().size(), 40U);
}

/// The expected contents of a datafile.
struct Model {
  Bytes content;
  std::uint64_t counter = 0;

  void write(std::uint64_t offset, ByteView data) {
    if (data.empty()) return;
    content.resize(std::max<std::size_t>(content.size(), offset + data.size()));
    std::copy(data.begin(), data.end(), content.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void punch(const Extent& extent) {
    const std::size_t end = std::min<std::size_t>(content.size(), extent.offset + extent.size);
    for (std::size_t i = extent.offset; i < end; ++i) content[i] = std::byte{0};
  }
};

/// Random operations. Each of a few datafiles has one operation at a time; those of different datafiles overlap.
class Differential {
 public:
  explicit Differential(std::uint64_t seed) : random_(seed) {}

  static constexpr std::size_t kDatafiles = 24;
  static constexpr std::uint64_t kLargest = 100'000;

  struct Round {
    std::size_t index;
    Bytes data;
    OwnedRequest* posted = nullptr;
  };

  OwnedRequest make(Round& round) {
    OwnedRequest made;
    made.request.id = {Handle(1 + round.index), static_cast<std::uint32_t>(round.index % 2)};
    const std::uint64_t kind = random_.below(100);
    made.request.op = kind < 35   ? BytestreamOp::kWrite
                      : kind < 70 ? BytestreamOp::kRead
                      : kind < 80 ? BytestreamOp::kTruncate
                      : kind < 88 ? BytestreamOp::kPunch
                      : kind < 92 ? BytestreamOp::kStat
                      : kind < 95 ? BytestreamOp::kRemove
                      : kind < 97 ? BytestreamOp::kSync
                                  : BytestreamOp::kAllocate;
    made.request.size = random_.below(kLargest);
    const std::uint64_t count = 1 + random_.below(6);
    std::uint64_t at = random_.below(kLargest / 2);
    for (std::uint64_t i = 0; i < count; ++i) {
      at += random_.below(3) == 0 ? 0 : random_.below(5000);
      const std::uint64_t size = random_.below(9000);
      made.extents.push_back({at, size});
      at += size;
    }
    if (made.request.op != BytestreamOp::kWrite && made.request.op != BytestreamOp::kRead) return made;
    round.data = pattern(random_.next(), total(made.extents));
    if (made.request.op == BytestreamOp::kRead) std::fill(round.data.begin(), round.data.end(), std::byte{0xEE});
    for (std::size_t from = 0; from < round.data.size();) {
      const std::size_t size = std::min<std::size_t>(round.data.size() - from, 1 + random_.below(7000));
      made.memory.push_back(MutableByteView(round.data).subspan(from, size));
      from += size;
    }
    return made;
  }

  /// Applies the operation to the model, and compares the outcome with it.
  void check(const Round& round) {
    const OwnedRequest& asked = *round.posted;
    Model& model = models_[round.index];
    ASSERT_EQ(asked.done.status, Errc::kOk);
    switch (asked.request.op) {
      case BytestreamOp::kWrite: apply_write(model, asked, round.data); break;
      case BytestreamOp::kRead: check_read(model, asked, round.data); break;
      case BytestreamOp::kTruncate: model.content.resize(asked.request.size); break;
      case BytestreamOp::kPunch:
        for (const Extent& extent : asked.extents) model.punch(extent);
        break;
      case BytestreamOp::kRemove: model = Model{}; return;
      default: break;
    }
    ASSERT_EQ(asked.done.stat.size, model.content.size());
    const bool changes = asked.request.op == BytestreamOp::kWrite || asked.request.op == BytestreamOp::kTruncate ||
                         asked.request.op == BytestreamOp::kPunch || asked.request.op == BytestreamOp::kAllocate;
    if (changes && !model.content.empty() && asked.done.bytes + asked.request.size > 0) {
      ASSERT_GE(asked.done.stat.change_counter, model.counter);
    } else if (!changes) {
      ASSERT_EQ(asked.done.stat.change_counter, model.counter);
    }
    model.counter = asked.done.stat.change_counter;
  }

  Random& random() { return random_; }
  const Model& model(std::size_t index) { return models_[index]; }

 private:
  static std::size_t total(const std::vector<Extent>& extents) {
    std::size_t sum = 0;
    for (const Extent& extent : extents) sum += extent.size;
    return sum;
  }
  static void apply_write(Model& model, const OwnedRequest& asked, const Bytes& data) {
    ASSERT_EQ(asked.done.bytes, data.size());
    std::size_t from = 0;
    for (const Extent& extent : asked.extents) {
      model.write(extent.offset, ByteView(data).subspan(from, extent.size));
      from += extent.size;
    }
  }
  static void check_read(const Model& model, const OwnedRequest& asked, const Bytes& data) {
    Bytes want;
    for (const Extent& extent : asked.extents) {
      if (extent.size == 0) continue;
      const std::size_t end = std::min<std::size_t>(model.content.size(), extent.offset + extent.size);
      for (std::size_t i = extent.offset; i < end; ++i) want.push_back(model.content[i]);
      if (end < extent.offset + extent.size) break;
    }
    ASSERT_EQ(asked.done.bytes, want.size());
    want.resize(data.size(), std::byte{0xEE});
    ASSERT_BYTES(data, want);
  }

  SeededRandom random_;
  std::array<Model, kDatafiles> models_;
};

TEST_P(BytestreamTest, RandomOperationsAgreeWithAModel) {
  constexpr std::uint64_t kSeed = 20'260'801;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Differential run(kSeed);
  for (int turn = 0; turn < 300; ++turn) {
    std::array<Differential::Round, 10> rounds;
    const std::size_t first = run.random().below(Differential::kDatafiles);
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      rounds[i].index = (first + i) % Differential::kDatafiles;
      rounds[i].posted = &post_request(run.make(rounds[i]));
    }
    for (Differential::Round& round : rounds) wait(*round.posted);
    for (const Differential::Round& round : rounds) {
      run.check(round);
      if (HasFatalFailure()) FAIL() << "turn " << turn << ", datafile " << round.index;
    }
    wait_all();
    if (turn % 100 == 99) restart();
  }
  for (std::size_t i = 0; i < Differential::kDatafiles; ++i) {
    const DatafileId datafile{Handle(1 + i), static_cast<std::uint32_t>(i % 2)};
    ASSERT_EQ(read(datafile, 0, 300'000), run.model(i).content);
  }
}

}  // namespace
}  // namespace spate::trove
