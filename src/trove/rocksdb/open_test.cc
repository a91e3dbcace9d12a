// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <fstream>

#include "base/codec.h"
#include "base/expect.h"
#include "trove/rocksdb/read.h"
#include "trove/rocksdb/status.h"
#include "trove/rocksdb/test_store.h"

namespace spate::trove {
namespace {

class OpenTest : public StoreTest {
 protected:
  void write_record(ByteView record) {
    const auto db = open_raw();
    ASSERT_EQ(db->Put({}, rocksdb::Slice(kFormatKey, sizeof kFormatKey), slice_of(record)).ToString(), "OK");
  }
  void overwrite(const std::string& file, std::size_t offset, const std::string& text) {
    std::fstream stream(options_.folder + "/" + file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream << text;
    ASSERT_TRUE(stream.good());
  }
};

Bytes record_of(std::string_view format_name, std::uint32_t version) {
  Bytes record;
  Encoder encoder(record);
  encoder.text(format_name);
  encoder.u32(version);
  return record;
}

TEST_F(OpenTest, FormatRecordIsHidden) {
  open();
  ASSERT_EQ(commit("a", "1"), Errc::kOk);
  const auto t = store_->begin();
  KeyRange range;
  range.end = to_bytes(as_bytes("z"));
  range.limit = 10;
  KeyvalCompletion done;
  if (!t->post_range(range, nullptr, done)) done = wait();
  ASSERT_EQ(done.entries.size(), 1U);
  EXPECT_EQ(as_text(done.entries[0].key), "a");
}

TEST_F(OpenTest, NewerFormatIsRefusedByName) {
  open();
  write_record(record_of("spate keyval", 7));
  const Error error = open_error();
  EXPECT_ERRC(error, Errc::kFormatTooNew);
  EXPECT_NE(error.message().find("format 7"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find(options_.folder), std::string::npos) << error.message();
}

TEST_F(OpenTest, DamagedFormatRecordIsCorrupt) {
  open();
  for (const Bytes& record : {record_of("something else", 1), record_of("spate keyval", 0), to_bytes(as_bytes("x")),
                              Bytes{}, to_bytes(as_bytes("\xff\xff\xff\xff"))}) {
    write_record(record);
    EXPECT_ERRC(open_error(), Errc::kCorrupt);
  }
}

TEST_F(OpenTest, ForeignStoreIsNotTouched) {
  {
    const auto db = open_raw();
    ASSERT_EQ(db->Put({}, "somebody's", "data").ToString(), "OK");
  }
  EXPECT_ERRC(open_error(), Errc::kWrongFileSystem);
  const auto db = open_raw();
  std::string value;
  EXPECT_TRUE(db->Get({}, rocksdb::Slice(kFormatKey, sizeof kFormatKey), &value).IsNotFound());
}

TEST_F(OpenTest, SecondOpeningIsBusy) {
  open();
  const auto second = open_rocksdb(options_);
  ASSERT_ERRC(second, Errc::kBusy);
  EXPECT_ERRC(second, Errc::kBusy);
  EXPECT_NE(second.error().message().find("another spated uses this folder"), std::string::npos)
      << second.error().message();
}

TEST_F(OpenTest, MissingFolderAboveIsNamed) {
  options_.folder = scratch_ + "/no/such/store";
  const Error error = open_error();
  EXPECT_ERRC(error, Errc::kNotFound);
  EXPECT_NE(error.message().find("create the folder above"), std::string::npos) << error.message();
}

TEST_F(OpenTest, FileInTheWayIsAnError) {
  std::ofstream(options_.folder) << "not a folder";
  EXPECT_NE(open_error().code(), Errc::kOk);
}

TEST_F(OpenTest, DamagedManifestOrCurrentIsCorruptOrRefused) {
  open();
  ASSERT_EQ(commit("a", "1"), Errc::kOk);
  store_.reset();
  overwrite("CURRENT", 0, "MANIFEST-99");
  EXPECT_NE(open_error().code(), Errc::kOk);
  overwrite("CURRENT", 0, "rubbish rubbish");
  EXPECT_ERRC(open_error(), Errc::kCorrupt);
}

TEST_F(OpenTest, DamagedTablesGiveCorruptOrTheRightValue) {
  static constexpr int kKeys = 2000;
  open();
  {
    const auto db = open_raw();
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_EQ(db->Put({}, "key" + std::to_string(i), std::string(100, 'v') + std::to_string(i)).ToString(), "OK");
    }
    ASSERT_EQ(db->Flush({}).ToString(), "OK");
  }
  std::string table;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder)) {
    if (entry.path().extension() == ".sst" && entry.file_size() > 100'000) table = entry.path().filename();
  }
  ASSERT_THAT(table, testing::Not(testing::IsEmpty()));
  overwrite(table, 10'000, std::string(20, '\x5a'));
  overwrite(table, 150'000, std::string(1, '\x5a'));
  open();
  int corrupt = 0;
  for (int i = 0; i < kKeys; ++i) {
    const std::string value = get("key" + std::to_string(i));
    if (value == "corrupt") {
      ++corrupt;
    } else {
      EXPECT_EQ(value, std::string(100, 'v') + std::to_string(i));
    }
  }
  EXPECT_GT(corrupt, 5);
  EXPECT_LT(corrupt, kKeys / 2);
  const auto t = store_->begin();
  KeyRange range;
  range.begin = to_bytes(as_bytes("key"));
  range.end = to_bytes(as_bytes("kez"));
  range.limit = kKeys;
  KeyvalCompletion done;
  if (!t->post_range(range, nullptr, done)) done = wait();
  EXPECT_EQ(done.status, Errc::kCorrupt);
  EXPECT_THAT(done.entries, testing::IsEmpty());
}

TEST_F(OpenTest, TruncatedTableIsCorrupt) {
  open();
  {
    const auto db = open_raw();
    ASSERT_EQ(db->Put({}, "key", std::string(100'000, 'v')).ToString(), "OK");
    ASSERT_EQ(db->Flush({}).ToString(), "OK");
  }
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder)) {
    if (entry.path().extension() == ".sst") std::filesystem::resize_file(entry.path(), 50);
  }
  EXPECT_ERRC(open_error(), Errc::kCorrupt);
}

// RocksDB 7.8 answers "found, empty" when the reading must not touch the device and a table is not open.
TEST_F(OpenTest, ColdTablesGiveTheirValues) {
  static constexpr int kTables = 24;  // more than are opened with the store
  open();
  {
    // All tables are at the bottom level, so there is nothing to compact. A compaction would open them.
    const auto db = open_raw(1000);
    for (int i = 0; i < kTables; ++i) {
      ASSERT_EQ(db->Put({}, "a fill" + std::to_string(i), std::string(4000, 'x')).ToString(), "OK");
      ASSERT_EQ(db->Put({}, "key" + std::to_string(i), std::string(4000, 'v')).ToString(), "OK");
      ASSERT_EQ(db->Put({}, "key" + std::to_string(i) + "empty", "").ToString(), "OK");
    }
    rocksdb::CompactRangeOptions whole;
    whole.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_EQ(db->Flush({}).ToString(), "OK");
    ASSERT_EQ(db->CompactRange(whole, nullptr, nullptr).ToString(), "OK");
    std::string tables;
    ASSERT_TRUE(db->GetProperty("rocksdb.num-files-at-level6", &tables));
    ASSERT_GE(std::stoi(tables), kTables);
  }
  for (const bool many : {false, true}) {
    open();
    std::vector<Bytes> keys;
    for (int i = 0; i < kTables; ++i) keys.push_back(to_bytes(as_bytes("key" + std::to_string(i))));
    if (many) {
      const auto t = store_->begin();
      KeyvalCompletion done;
      if (!t->post_get_many(keys, ReadMode::kChecked, nullptr, done)) done = wait();
      ASSERT_EQ(done.entries.size(), keys.size());
      for (const KeyValue& entry : done.entries) EXPECT_EQ(entry.value.size(), 4000U);
      continue;
    }
    for (const Bytes& key : keys) EXPECT_EQ(get(std::string(as_text(key))).size(), 4000U);
    for (int i = 0; i < kTables; ++i) EXPECT_EQ(get("key" + std::to_string(i) + "empty"), "");
    EXPECT_EQ(get("none"), "(none)");
  }
}

}  // namespace
}  // namespace spate::trove
