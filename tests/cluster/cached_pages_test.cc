// SPDX-License-Identifier: Apache-2.0
// An open keeps the pages of a file only if no other client has changed the file since.
#include "client/file/cached_pages.h"

#include <array>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

constexpr std::uint8_t kToRead = wire::kOpenRead;
constexpr std::uint64_t kSpread = 20'000;  // bytes that lie on every io server

class KernelPageCacheTest : public ::testing::Test {
 protected:
  KernelPageCacheTest() : mount_(world_.start_client()), other_(world_.start_client()) {}

  template <typename T>
  T run(ClientProcess& client, job::Task<T> task) {
    return call(world_, client, std::move(task));
  }
  std::unique_ptr<client::File> open_at(ClientProcess& client, std::uint8_t flags) {
    auto opened = run(client, client.client().open(client::path_from_root("file"), flags));
    SPATE_CHECK(opened.has_value());
    return *std::move(opened);
  }
  static void expect_written(const Result<void>& done) { EXPECT_OK(done); }
  void write(ClientProcess& client, client::File& file, std::uint64_t offset, std::uint64_t size) {
    const Bytes data(size, std::byte{'x'});
    expect_written(run(client, file.write(offset, data)));
  }

  /// Opens the file on the mount. `keeps`: whether the open keeps the pages; otherwise they are dropped.
  std::unique_ptr<client::File> open(std::uint8_t flags, bool& keeps) {
    std::unique_ptr<client::File> file = open_at(mount_, flags);
    keeps = run(mount_, pages_->opened(*file));
    if (!keeps) pages_->dropped(file->attributes());
    return file;
  }
  std::unique_ptr<client::File> open(std::uint8_t flags) {
    bool keeps = false;
    return open(flags, keeps);
  }
  void close(std::unique_ptr<client::File> file) { EXPECT_OK(run(mount_, pages_->close(*file))); }
  bool next_open_keeps(std::uint8_t flags = kToRead) {
    bool keeps = false;
    close(open(flags, keeps));
    return keeps;
  }

  /// Cuts the meta server off from the io servers.
  void cut_meta_server(bool is) {
    for (const ServerId server : world_.servers()) {
      if (server != kMetaServer) world_.fabric().links().partition(kMetaServer.value, server.value, is);
    }
  }
  /// Makes a file on every io server, which the mount writes and closes.
  void make() {
    auto made = run(mount_, mount_.client().create(client::path_from_root("file"), kReadWrite, {}));
    SPATE_CHECK(made.has_value());
    const std::unique_ptr<client::File> file = *std::move(made);
    std::ignore = run(mount_, pages_->opened(*file));
    write(mount_, *file, 0, kSpread);
    EXPECT_OK(run(mount_, pages_->close(*file)));
  }

  World world_{WorldOptions{}};
  ClientProcess& mount_;
  ClientProcess& other_;
  std::array<client::CachedPages::PageRecord, 16> memory_{};
  std::unique_ptr<client::CachedPages> pages_ = std::make_unique<client::CachedPages>(memory_);
};

TEST_F(KernelPageCacheTest, PagesStayAfterTheMountsOwnWrite) {
  make();
  EXPECT_TRUE(next_open_keeps());
  EXPECT_TRUE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, PagesStayAfterAWriteOfAPart) {
  make();
  bool keeps = false;
  std::unique_ptr<client::File> file = open(kReadWrite, keeps);
  EXPECT_TRUE(keeps) << "at the open for writing";
  write(mount_, *file, 3, 100);
  close(std::move(file));
  EXPECT_TRUE(next_open_keeps());
  EXPECT_TRUE(next_open_keeps(kReadWrite)) << "when nothing was written";
  EXPECT_TRUE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, PagesStayAfterTheMountsOwnTruncation) {
  make();
  std::unique_ptr<client::File> file = open(kReadWrite | wire::kOpenTruncate);
  write(mount_, *file, 0, 100);
  close(std::move(file));
  EXPECT_TRUE(next_open_keeps());
  file = open(kReadWrite);
  EXPECT_OK(run(mount_, file->truncate(50)));
  close(std::move(file));
  EXPECT_TRUE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, PagesStayAfterTwoWritersOfTheMount) {
  make();
  for (const bool first_closes_first : {true, false}) {
    std::unique_ptr<client::File> first = open(kReadWrite);
    std::unique_ptr<client::File> second = open(kReadWrite);
    write(mount_, *first, 0, 10);
    write(mount_, *second, 5, kSpread);
    write(mount_, *first, kSpread, 100);
    if (first_closes_first) std::swap(first, second);
    close(std::move(second));
    close(std::move(first));
    EXPECT_TRUE(next_open_keeps()) << first_closes_first;
  }
  EXPECT_EQ(run(mount_, mount_.client().stat(client::path_from_root("file")))->attributes.size, kSpread + 100);
}

TEST_F(KernelPageCacheTest, PagesStayWhenWritersOfTheMountFollowOneAnotherOpen) {
  make();
  std::unique_ptr<client::File> file = open(kReadWrite);
  for (std::uint64_t i = 0; i < 5; ++i) {
    std::unique_ptr<client::File> next = open(kReadWrite);
    write(mount_, *next, i * 10, 10);
    close(std::exchange(file, std::move(next)));
  }
  close(std::move(file));
  EXPECT_TRUE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, AWriteOfAnotherClientBetweenTwoWritersOfTheMountDropsPages) {
  for (const bool closes : {true, false}) {
    make();
    std::unique_ptr<client::File> first = open(kReadWrite);
    const std::unique_ptr<client::File> others = open_at(other_, kReadWrite);
    std::unique_ptr<client::File> second = open(kReadWrite);
    write(other_, *others, 0, 10);
    if (closes) std::ignore = run(other_, others->close());
    write(mount_, *first, 0, kSpread);
    close(std::move(first));
    close(std::move(second));
    EXPECT_FALSE(next_open_keeps()) << closes;
    if (!closes) std::ignore = run(other_, others->close());
  }
}

TEST_F(KernelPageCacheTest, AChangePastThePagesOfTwoWritersDropsPages) {
  make();
  std::unique_ptr<client::File> first = open(kReadWrite);
  std::unique_ptr<client::File> second = open(kReadWrite);
  pages_->spoil(first->handle());
  close(std::move(first));
  close(std::move(second));
  EXPECT_FALSE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, AWriteOfAnotherClientDropsPages) {
  for (const bool closes : {true, false}) {
    make();
    const std::unique_ptr<client::File> file = open_at(other_, kReadWrite);
    write(other_, *file, 100, 1);
    if (closes) cut_meta_server(true);  // it does not learn the size yet
    if (closes) std::ignore = run(other_, file->close());
    EXPECT_FALSE(next_open_keeps()) << closes;
    cut_meta_server(false);
    if (closes) world_.run_for(std::chrono::seconds(3));
    if (!closes) std::ignore = run(other_, file->close());
    EXPECT_FALSE(next_open_keeps(kReadWrite)) << closes;
  }
}

TEST_F(KernelPageCacheTest, AnOpenOfAnotherClientDropsNoPages) {
  make();
  const std::unique_ptr<client::File> file = open_at(other_, kReadWrite);
  EXPECT_TRUE(next_open_keeps());
  write(other_, *file, kSpread - 1, 1);
  EXPECT_FALSE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, ATruncationByAnotherClientDropsPages) {
  make();
  EXPECT_OK(run(other_, other_.client().truncate(client::path_from_root("file"), 5)));
  EXPECT_FALSE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, AWriteOfAnotherClientDuringTheMountsOwnDropsPages) {
  make();
  std::unique_ptr<client::File> file = open(kReadWrite);
  const std::unique_ptr<client::File> others = open_at(other_, kReadWrite);
  write(other_, *others, 0, 10);
  std::ignore = run(other_, others->close());
  write(mount_, *file, 0, kSpread);
  close(std::move(file));
  EXPECT_FALSE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, PagesThatMissedAWriteAreDropped) {
  make();
  std::unique_ptr<client::File> file = open(kReadWrite);
  pages_->spoil(file->handle());
  cut_meta_server(true);
  close(std::move(file));
  EXPECT_FALSE(next_open_keeps());
  cut_meta_server(false);
  world_.run_for(std::chrono::seconds(3));  // meanwhile the meta server asks for the size
  EXPECT_FALSE(next_open_keeps());
  EXPECT_TRUE(next_open_keeps());
}

TEST_F(KernelPageCacheTest, TheNextProcessOfTheMountKeepsPages) {
  make();
  pages_ = std::make_unique<client::CachedPages>(memory_);
  EXPECT_TRUE(next_open_keeps());
  const std::unique_ptr<client::File> file = open(kReadWrite);
  pages_ = std::make_unique<client::CachedPages>(memory_);
  EXPECT_FALSE(next_open_keeps()) << "of a file that the process before had open for writing";
}

TEST_F(KernelPageCacheTest, PagesAreDroppedWithinASecondWhileAServerIsDown) {
  make();
  const std::unique_ptr<client::File> others = open_at(other_, kReadWrite);
  std::unique_ptr<client::File> file = open_at(mount_, kToRead);
  world_.kill_server(ServerId{3}, bmi::sim::Death::kProcess);
  const MonoTime begun = world_.now();
  EXPECT_FALSE(run(mount_, pages_->opened(*file)));
  EXPECT_LE(world_.now() - begun, std::chrono::milliseconds(1100));
}

/// The writer that closes last knows only its own writes.
TEST_F(KernelPageCacheTest, TheServerSettlesTheSizeWhenTheLastOfTwoWritersCannotAsk) {
  make();
  std::unique_ptr<client::File> first = open(kReadWrite);
  std::unique_ptr<client::File> second = open(kReadWrite);
  write(mount_, *first, 0, kSpread);
  write(mount_, *second, kSpread, 2 * kSpread);
  close(std::move(second));
  for (const std::uint32_t server : {2U, 3U, 4U}) world_.fabric().links().partition(server, mount_.node(), true);
  close(std::move(first));
  for (const std::uint32_t server : {2U, 3U, 4U}) world_.fabric().links().partition(server, mount_.node(), false);
  const auto size = [this] {
    return run(other_, other_.client().stat(client::path_from_root("file")))->attributes.size;
  };
  EXPECT_EQ(size(), 3 * kSpread);
  world_.run_for(std::chrono::seconds(1));
  EXPECT_EQ(size(), 3 * kSpread);
}

}  // namespace
}  // namespace spate::cluster
