// SPDX-License-Identifier: Apache-2.0
// For tests: checks the invariants of docs/disk-meta.md, "What holds", record by record.
#pragma once

#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {

/// Reads all records of a RoleTest's store.
class Audit {
 public:
  explicit Audit(RoleTest& world) : world_(world) {
    for (const trove::KeyValue& entry : world.all(KeyKind::kInode)) {
      inodes.emplace(id_of(entry), decode_record<InodeRecord>(entry.value).value());
    }
    for (const trove::KeyValue& entry : world.all(KeyKind::kTruncate)) {
      intents.emplace(id_of(entry), decode_record<TruncateIntent>(entry.value).value());
    }
    for (const trove::KeyValue& entry : world.all(KeyKind::kUnsettled)) unsettled.insert(id_of(entry));
    for (const trove::KeyValue& entry : world.all(KeyKind::kRemoval)) removals.insert(id_of(entry));
    for (const trove::KeyValue& entry : world.all(KeyKind::kSession)) sessions.insert(id_of(entry).value);
    for (const trove::KeyValue& entry : world.all(KeyKind::kOpen)) {
      const auto key = parse_open_key(entry.key);
      opens[key->handle] += 1;
      writers[key->handle] += decode_record<OpenRecord>(entry.value).value().writers;
      EXPECT_TRUE(sessions.contains(key->client.value)) << "an open of nobody";
    }
    for (const trove::KeyValue& entry : world.all(KeyKind::kAnswer)) {
      EXPECT_TRUE(sessions.contains(id_of(entry).value)) << "an answer to nobody";
    }
    read_entries();
  }

  /// Checks the invariants that hold at any moment, also in the middle of operations.
  void check() {
    for (const auto& [handle, inode] : inodes) check_inode(handle, inode);
    for (const auto& [handle, intent] : intents) {
      if (!inodes.contains(handle)) continue;
      EXPECT_TRUE(inodes.at(handle).truncating) << handle.value;
      EXPECT_EQ(intent.generation, inodes.at(handle).truncate_generation) << handle.value;
    }
    for (const auto& [handle, n] : opens) EXPECT_TRUE(inodes.contains(handle)) << "an open of nothing " << handle.value;
    for (const Handle handle : removals) EXPECT_FALSE(inodes.contains(handle)) << "removed and there " << handle.value;
  }

  /// Checks also those that hold when all background work is done: every datafile belongs to a file of this store.
  void check_at_rest() {
    check();
    EXPECT_THAT(intents, testing::IsEmpty());
    EXPECT_THAT(unsettled, testing::IsEmpty());
    EXPECT_THAT(removals, testing::IsEmpty());
    EXPECT_EQ(world_.role->intent_recovery().working(), 0U);
    for (const auto& [handle, file] : world_.io.files) {
      EXPECT_NE(file.removed, inodes.contains(handle)) << "datafiles of " << handle.value;
    }
    for (const auto& [handle, inode] : inodes) {
      if (!inode.is_regular() || inode.write_opens > 0) continue;
      const wire::DataSummary data = world_.data_of(handle);
      EXPECT_TRUE(knows_size(inode.attributes)) << handle.value;
      EXPECT_EQ(inode.attributes.size, data.size) << handle.value;
      EXPECT_EQ(inode.attributes.allocated_bytes, data.allocated_bytes) << handle.value;
    }
  }

  std::map<Handle, InodeRecord> inodes;
  std::map<Handle, TruncateIntent> intents;
  std::set<Handle> unsettled;
  std::set<Handle> removals;
  std::set<std::uint64_t> sessions;
  std::map<Handle, std::uint32_t> opens;    // records
  std::map<Handle, std::uint32_t> writers;  // opens for writing
  std::map<Handle, std::uint32_t> names;
  std::map<Handle, std::uint32_t> in_parent;  // names of an object in its parent
  std::map<Handle, std::uint32_t> in_second;  // and in its second parent
  std::map<Handle, std::uint32_t> entries;    // of a directory

 private:
  static Handle id_of(const trove::KeyValue& entry) { return Handle(parse_id_key(entry.key).value()); }

  void read_entries() {
    for (const trove::KeyValue& entry : world_.all(KeyKind::kEntry)) {
      const auto record = decode_record<EntryRecord>(entry.value).value();
      ++names[record.handle];
      ++entries[id_of(entry)];
      ASSERT_TRUE(inodes.contains(record.handle)) << "a name of nothing";
      EXPECT_EQ(inodes.at(record.handle).attributes.type, record.type);
      if (record.type == FileType::kDirectory) EXPECT_EQ(inodes.at(record.handle).parent, id_of(entry));
      if (inodes.at(record.handle).parent == id_of(entry)) ++in_parent[record.handle];
      if (inodes.at(record.handle).second_parent == id_of(entry)) ++in_second[record.handle];
    }
  }

  void check_inode(Handle handle, const InodeRecord& inode) {
    SCOPED_TRACE("inode " + std::to_string(handle.value));
    EXPECT_EQ(inode.handle(), handle);
    EXPECT_EQ(inode.truncating, intents.contains(handle));
    EXPECT_EQ(inode.write_opens, writers[handle]);
    if (inode.is_directory()) {
      if (handle != kRootHandle) EXPECT_EQ(names[handle], 1U);
      EXPECT_EQ(inode.attributes.size, entries[handle]);
      return;
    }
    EXPECT_EQ(inode.attributes.link_count, names[handle]);
    if (inode.parent) EXPECT_GT(in_parent[handle], 0U) << "no name in its parent " << inode.parent.value;
    const std::uint32_t more = inode.second_parent == inode.parent ? 2 : 1;
    if (inode.second_parent) EXPECT_GE(in_second[handle], more) << "in " << inode.second_parent.value;
    if (inode.attributes.link_count == 0) EXPECT_GT(opens[handle], 0U) << "neither name nor open";
    if (!inode.is_regular()) return;
    if (inode.write_opens > 0) EXPECT_FALSE(knows_size(inode.attributes));
    if (inode.write_opens == 0 && !inode.attributes.size_known) EXPECT_TRUE(unsettled.contains(handle)) << handle.value;
  }

  RoleTest& world_;
};

}  // namespace spate::meta
