// SPDX-License-Identifier: Apache-2.0
// TestDisk and TestFileSystem: a file system for tests of the store. On the test's command it holds operations, lets
// them fail, and loses unsynced data.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace spate::trove {

/// Thread-safe. Gates that stay closed open by themselves after ten seconds, so that a test which waits for one fails
/// instead of hanging.
class TestDisk {
 public:
  enum Gate : unsigned { kLogSync, kTableWrite, kTableRead, kGates };

  void close(Gate gate) { set(gate, true); }
  void open(Gate gate) { set(gate, false); }
  /// Returns once the gate is open.
  void pass(Gate gate) {
    std::unique_lock lock(mutex_);
    if (!closed_[gate]) return;
    ++waiting_;
    changed_.notify_all();
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [&] { return !closed_[gate]; })) timed_out_ = true;
    --waiting_;
  }
  /// Returns once a thread waits at a closed gate.
  void wait_for_waiter() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(10), [&] { return waiting_ > 0; })) timed_out_ = true;
  }
  bool timed_out() {
    const std::lock_guard lock(mutex_);
    return timed_out_;
  }

  void fail_log_writes(rocksdb::IOStatus status) {
    const std::lock_guard lock(mutex_);
    log_write_ = std::move(status);
  }
  void fail_log_syncs(rocksdb::IOStatus status) {
    const std::lock_guard lock(mutex_);
    log_sync_ = std::move(status);
  }
  rocksdb::IOStatus log_write() {
    const std::lock_guard lock(mutex_);
    return log_write_;
  }
  rocksdb::IOStatus log_sync() {
    const std::lock_guard lock(mutex_);
    return log_sync_;
  }

  void synced(const std::string& path, std::uint64_t size) {
    const std::lock_guard lock(mutex_);
    if (!dropped_.contains(path)) synced_[path] = size;
  }
  /// A sync of this log failed: the data that it did not write never reaches the device, whatever later syncs report.
  void dropped(const std::string& path) {
    const std::lock_guard lock(mutex_);
    dropped_.insert(path);
  }
  /// The machine went down: logs end where they were last synced. The store must be closed.
  void lose_unsynced_logs(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".log") continue;
      const auto known = synced_.find(entry.path());
      if (known != synced_.end()) std::filesystem::resize_file(entry.path(), known->second);
    }
  }

 private:
  void set(Gate gate, bool closed) {
    const std::lock_guard lock(mutex_);
    closed_[gate] = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool closed_[kGates] = {};
  int waiting_ = 0;
  bool timed_out_ = false;
  rocksdb::IOStatus log_write_;
  rocksdb::IOStatus log_sync_;
  std::map<std::string, std::uint64_t> synced_;
  std::set<std::string> dropped_;
};

class TestWritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  /// `there`: bytes that the file holds already.
  TestWritableFile(std::unique_ptr<rocksdb::FSWritableFile>&& file, TestDisk& disk, std::string path,
                   std::uint64_t there)
      : FSWritableFileOwnerWrapper(std::move(file)), disk_(disk), path_(std::move(path)), written_(there) {
    if (is_log() && there == 0) disk_.synced(path_, 0);
  }

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    if (is_log() && !disk_.log_write().ok()) return disk_.log_write();
    if (is_table()) disk_.pass(TestDisk::kTableWrite);
    written_ += data.size();
    return target()->Append(data, options, debug);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& /*verification*/,
                           rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    if (!is_log()) return target()->Sync(options, debug);
    const std::uint64_t covered = written_;
    disk_.pass(TestDisk::kLogSync);
    if (!disk_.log_sync().ok()) {
      disk_.dropped(path_);
      return disk_.log_sync();
    }
    disk_.synced(path_, covered);
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  bool is_log() const { return path_.ends_with(".log"); }
  bool is_table() const { return path_.ends_with(".sst"); }

  TestDisk& disk_;
  std::string path_;
  std::uint64_t written_;
};

class TestRandomAccessFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  TestRandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile>&& file, TestDisk& disk)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), disk_(disk) {}

  rocksdb::IOStatus Read(std::uint64_t offset, std::size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext* debug) const override {
    disk_.pass(TestDisk::kTableRead);
    return target()->Read(offset, n, options, result, scratch, debug);
  }
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest* requests, std::size_t count, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override {
    disk_.pass(TestDisk::kTableRead);
    return target()->MultiRead(requests, count, options, debug);
  }

 private:
  TestDisk& disk_;
};

class TestFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit TestFileSystem(TestDisk& disk) : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(disk) {}
  const char* Name() const override { return "TestFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status = target()->NewWritableFile(path, options, &file, debug);
    if (status.ok()) *result = std::make_unique<TestWritableFile>(std::move(file), disk_, path, 0);
    return status;
  }
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* result,
                                       rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    std::uint64_t there = 0;
    rocksdb::IOStatus status = target()->ReopenWritableFile(path, options, &file, debug);
    if (status.ok()) status = target()->GetFileSize(path, options.io_options, &there, debug);
    if (status.ok()) *result = std::make_unique<TestWritableFile>(std::move(file), disk_, path, there);
    return status;
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    rocksdb::IOStatus status = target()->NewRandomAccessFile(path, options, &file, debug);
    if (status.ok()) *result = std::make_unique<TestRandomAccessFile>(std::move(file), disk_);
    return status;
  }

 private:
  TestDisk& disk_;
};

/// The disk outlives the environment, and both outlive the store.
inline std::unique_ptr<rocksdb::Env> make_test_env(TestDisk& disk) {
  return rocksdb::NewCompositeEnv(std::make_shared<TestFileSystem>(disk));
}

}  // namespace spate::trove
