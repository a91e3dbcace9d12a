// SPDX-License-Identifier: Apache-2.0
// The meta server's store is put back from a backup, while the io servers have gone on. New files and new clients take
// no harm from what the store has forgotten.
#include <set>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;
using FilePtr = std::unique_ptr<client::File>;
using namespace std::chrono_literals;

constexpr std::size_t kForgottenBytes = 300'000;

class RestoredStoreTest : public ::testing::Test {
 protected:
  RestoredStoreTest() : world_(WorldOptions()), client_(&world_.start_client()) {}

  template <typename T>
  T run(job::Task<T> task) {
    return call(world_, *client_, std::move(task));
  }
  FilePtr create(const std::string& name) {
    auto made = run(client_->client().create(path_from_root(name), kReadWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  FilePtr open(const std::string& name) {
    auto opened = run(client_->client().open(path_from_root(name), kReadWrite));
    EXPECT_OK(opened);
    return opened ? *std::move(opened) : nullptr;
  }
  void write(client::File& file, std::uint8_t byte, std::size_t size = kForgottenBytes) {
    const Bytes data(size, static_cast<std::byte>(byte));
    EXPECT_OK(run(file.write(0, data)));
  }
  void start_other_client() { client_ = &world_.start_client(); }
  /// Stops the meta server, copies its store, and starts it again, as an operator does.
  void make_backup() {
    world_.run_for(1s);
    world_.kill_server(kMetaServer, Death::kProcess);
    backup_ = world_.disks(kMetaServer).records.contents();
    world_.start_server(kMetaServer);
    start_other_client();
  }
  void put_back() {
    world_.run_for(1s);
    world_.kill_server(kMetaServer, Death::kProcess);
    world_.replace_disks(kMetaServer, WorldOptions());
    trove::SimKeyvalDisk& records = world_.disks(kMetaServer).records;
    records.attach();
    records.append(backup_);
    records.sync_to(records.position());
    records.detach();
    world_.start_server(kMetaServer);
    start_other_client();
  }

  World world_;
  ClientProcess* client_;
  trove::Batch backup_;
};

TEST_F(RestoredStoreTest, ANewFileHasNoDataOfAFileThatTheStoreHasForgotten) {
  make_backup();
  std::set<Handle> forgotten;
  for (int i = 0; i < 20; ++i) {
    const FilePtr file = create("forgotten" + std::to_string(i));
    write(*file, 7);
    forgotten.insert(file->handle());
    EXPECT_OK(run(file->close()));
  }
  put_back();
  for (int i = 0; i < 20; ++i) {
    const FilePtr file = create("new" + std::to_string(i));
    EXPECT_FALSE(forgotten.contains(file->handle())) << "a number is given out again";
    const Bytes end(1);
    EXPECT_OK(run(file->write(kForgottenBytes - 1, end)));
    Bytes found(kForgottenBytes);
    ASSERT_OK(run(file->read(0, found)));
    EXPECT_BYTES(found, Bytes(kForgottenBytes)) << "a new file shows bytes of another one";
    EXPECT_OK(run(file->close()));
  }
}

/// A file that was removed has left tombstones, which refuse writes.
TEST_F(RestoredStoreTest, ANewFileCanBeWrittenThoughAForgottenOneWasRemoved) {
  make_backup();
  for (int i = 0; i < 3; ++i) {
    const FilePtr file = create("forgotten");
    write(*file, 7);
    EXPECT_OK(run(file->close()));
    EXPECT_OK(run(client_->client().unlink(path_from_root("forgotten"))));
  }
  world_.run_for(5s);
  put_back();
  for (int i = 0; i < 3; ++i) write(*create("new" + std::to_string(i)), 8);
}

TEST_F(RestoredStoreTest, ATruncationHasItsEffectThoughTheIoServersKnowLaterOnes) {
  const FilePtr made = create("file");
  write(*made, 1);
  EXPECT_OK(run(made->close()));
  make_backup();
  for (int i = 0; i < 5; ++i) {
    const FilePtr file = open("file");
    EXPECT_OK(run(file->truncate(0)));
    write(*file, 2);
    EXPECT_OK(run(file->close()));
  }
  put_back();
  const FilePtr file = open("file");
  EXPECT_OK(run(file->truncate(0)));
  write(*file, 3, 10);
  Bytes found(kForgottenBytes);
  const auto got = run(file->read(0, found));
  ASSERT_OK(got);
  EXPECT_EQ(*got, 10U) << "the bytes that the truncation was to remove are still there";
}

/// The io servers have fenced clients that the store has forgotten, and refuse their numbers.
TEST_F(RestoredStoreTest, ANewClientIsNotTakenForAFencedOne) {
  make_backup();
  const FilePtr file = create("file");
  for (int i = 0; i < 3; ++i) {
    start_other_client();
    write(*open("file"), 1);
    ClientProcess* const dead = client_;
    start_other_client();
    world_.kill_client(*dead, Death::kProcess);
  }
  world_.run_for(world_.settings().session_lease * 3);  // so that the sessions of the dead expire
  put_back();
  for (int i = 0; i < 5; ++i) {
    start_other_client();
    write(*create("new" + std::to_string(i)), 2);
  }
}

}  // namespace
}  // namespace spate::cluster
