// SPDX-License-Identifier: Apache-2.0
// StoreTest: a store in a folder of its own, for the tests of this folder.
#pragma once

#include <poll.h>
#include <rocksdb/db.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/expect.h"
#include "trove/rocksdb/options.h"
#include "trove/rocksdb/rocksdb_keyval.h"
#include "trove/rocksdb/test_env.h"

namespace spate::trove {

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string name = std::filesystem::temp_directory_path() / "spate-store-XXXXXX";
    SPATE_CHECK(::mkdtemp(name.data()) != nullptr);
    scratch_ = name;
    options_.folder = scratch_ + "/store";
    options_.env = env_.get();
  }
  ~StoreTest() override {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
    EXPECT_FALSE(disk_.timed_out());
  }

  void open() {
    store_.reset();
    auto opened = open_rocksdb(options_);
    ASSERT_OK(opened);
    store_ = *std::move(opened);
  }
  Error open_error() {
    store_.reset();
    auto opened = open_rocksdb(options_);
    if (opened.has_value()) return Errc::kOk;
    return std::move(opened).error();
  }
  /// The folder as plain RocksDB.
  std::unique_ptr<rocksdb::DB> open_raw(std::uint64_t table_bytes = std::uint64_t{64} << 20) {
    store_.reset();
    rocksdb::Options options = rocksdb_options(options_);
    options.target_file_size_base = table_bytes;
    options.disable_auto_compactions = true;
    rocksdb::DB* db = nullptr;
    SPATE_CHECK(rocksdb::DB::Open(options, options_.folder, &db).ok());
    return std::unique_ptr<rocksdb::DB>(db);
  }

  KeyvalCompletion wait() {
    std::array<KeyvalCompletion, 1> out;
    while (store_->test(out) == 0) {
      if (!store_->prepare_to_wait()) continue;
      pollfd wanted{store_->wait_descriptor(), POLLIN, 0};
      SPATE_CHECK(::poll(&wanted, 1, 20'000) == 1);
    }
    return std::move(out[0]);
  }

  static void put(Transaction& t, const std::string& key, const std::string& value) {
    t.put(as_bytes(key), as_bytes(value));
  }
  Errc commit(const std::string& key, const std::string& value, Durability durability = Durability::kProcess) {
    const auto t = store_->begin();
    put(*t, key, value);
    KeyvalCompletion done;
    return t->post_commit(durability, nullptr, done) ? done.status : wait().status;
  }
  Errc sync() {
    KeyvalCompletion done;
    return store_->post_sync(nullptr, done) ? done.status : wait().status;
  }
  /// kOk and the value, "(none)", or the error.
  std::string get(const std::string& key) {
    const auto t = store_->begin();
    KeyvalCompletion done;
    if (!t->post_get(as_bytes(key), ReadMode::kChecked, nullptr, done)) done = wait();
    if (done.status != Errc::kOk) return std::string(name(done.status));
    return done.value ? std::string(as_text(*done.value)) : "(none)";
  }

  TestDisk disk_;
  std::unique_ptr<rocksdb::Env> env_ = make_test_env(disk_);
  std::string scratch_;
  RocksdbOptions options_;
  std::unique_ptr<Keyval> store_;
};

}  // namespace spate::trove
