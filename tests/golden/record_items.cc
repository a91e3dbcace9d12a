// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "dist/registry.h"
#include "server/io/mirror/mirror_records.h"
#include "server/io/records.h"
#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"
#include "tests/golden/catalog.h"
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

constexpr Handle kFile{0x0002000000000007};
constexpr WallTime kTime{1'700'000'000'000'000'111};

template <typename Record>
Item meta_record(const std::string& name, const Record& value) {
  Item item{"meta/" + name,
            name + " of a meta server's store, record version 1: docs/disk-meta.md",
            meta::encoded(value),
            {}};
  item.read = [value](ByteView bytes) -> std::string {
    const auto record = meta::decode_record<Record>(bytes);
    if (!record) return record.error().message();
    return *record == value ? "" : "is read as another value";
  };
  return item;
}

/// Keys are never parsed. Reading a key means building it again and comparing.
Item key(const std::string& name, Bytes bytes) {
  Item item{name, name + ", a key: docs/disk-meta.md, docs/disk-io.md", bytes, {}};
  item.read = [bytes](ByteView given) -> std::string {
    return std::equal(given.begin(), given.end(), bytes.begin(), bytes.end()) ? ""
                                                                              : "is not the key that is looked for";
  };
  return item;
}

template <typename Record>
Item io_record(const std::string& name, const Record& value, Result<Record> (*decode)(ByteView)) {
  Item item{"io/" + name, name + " of an io server's store, record version 1: docs/disk-io.md", io::encode(value), {}};
  item.read = [value, decode](ByteView bytes) -> std::string {
    const auto record = decode(bytes);
    if (!record) return record.error().message();
    return *record == value ? "" : "is read as another value";
  };
  return item;
}

meta::InodeRecord inode(FileType type) {
  meta::InodeRecord r;
  r.attributes = sample_attributes();
  r.attributes.type = type;
  if (r.is_regular()) r.layout = sample_layout();
  if (r.is_symlink()) r.target = "../elsewhere";
  if (r.is_directory()) {
    r.parent = Handle(0x0002000000000003);
    r.entries_version = 41;
    r.hints = {65536, 4, TargetId(513), {}, {}, {}};
  }
  r.write_opens = 2;
  r.writers = 1;
  r.keep_mtime = true;
  r.write_generation = 42;
  r.truncate_generation = 43;
  r.xattr_count = 2;
  r.xattr_bytes = 44;
  return r;
}

meta::SessionRecord session() {
  meta::SessionRecord r;
  r.client = ClientId(0x0102030405060708);
  r.epoch = 6;
  r.released_epoch = 5;
  r.state = meta::SessionState::kExpired;
  r.credential = sample_credential();
  r.description = "node7:4711:cp";
  r.opened = kTime;
  r.ended = WallTime{kTime.ns + 1};
  return r;
}

meta::ClusterRecord cluster() {
  const ClusterMap map = sample_map();
  return {map, {map.servers.back().id}, 0x1234};
}

meta::ClusterRecord cluster_with_racks() {
  meta::ClusterRecord r = cluster();
  r.map.servers.back().rack = "rack-2.b";
  return r;
}

std::vector<Item> meta_items() {
  meta::AnswerRecord answer{0x1718, wire::Op::kCreate, Errc::kOk, "", to_bytes(as_bytes("a reply")), kFile};
  meta::AnswerRecord refusal{0x1719, wire::Op::kRename, Errc::kExists, "b is there", {}, {}};
  meta::InodeRecord truncating = inode(FileType::kRegular);
  truncating.truncating = true;
  truncating.writers = 0;
  truncating.keep_mtime = false;
  meta::InodeRecord with_lists = inode(FileType::kDirectory);
  with_lists.acl = {{1, 7, ~0U}, {2, 5, 1000}, {4, 5, ~0U}, {16, 5, ~0U}, {32, 0, ~0U}};
  with_lists.default_acl = {{1, 7, ~0U}, {4, 5, ~0U}, {32, 5, ~0U}};
  meta::InodeRecord with_distribution = inode(FileType::kDirectory);
  with_distribution.hints.distribution = *parse_distribution("varstrip:64 KiB,1 MiB,0:4 KiB");
  meta::InodeRecord two_dimensional = inode(FileType::kRegular);
  two_dimensional.layout->distribution = *parse_distribution("twod_stripe:2,16");
  meta::InodeRecord written = inode(FileType::kRegular);
  written.written_by_users = true;
  meta::InodeRecord several_writers = inode(FileType::kRegular);
  several_writers.writers = 2;
  meta::InodeRecord mirrored = inode(FileType::kRegular);
  mirrored.layout = sample_mirrored_layout();
  meta::InodeRecord with_replicas = inode(FileType::kDirectory);
  with_replicas.hints.replicas = 3;
  meta::InodeRecord with_min_copies = with_replicas;
  with_min_copies.hints.min_copies = 2;
  meta::InodeRecord with_parent = inode(FileType::kRegular);
  with_parent.parent = Handle(0x0002000000000003);
  meta::InodeRecord mirrored_with_parent = mirrored;
  mirrored_with_parent.parent = with_parent.parent;
  meta::InodeRecord linked = mirrored_with_parent;
  linked.second_parent = Handle(0x0002000000000009);
  meta::TruncateIntent asked{0x123456789A, 43, kTime, sample_layout()};
  asked.asker = {ClientId(0x0102030405060708), 6, 7, 0x1718, Rights::kReadWrite};
  asked.before = 0x1234;
  meta::SessionRecord with_key = session();
  with_key.user_key = KeyId{std::byte{0x71}, std::byte{0x72}};
  return {
      meta_record("inode.lists", with_lists),
      meta_record("inode.written", written),
      meta_record("inode.several_writers", several_writers),
      meta_record("inode.mirrored", mirrored),
      meta_record("inode.with_replicas", with_replicas),
      meta_record("inode.with_min_copies", with_min_copies),
      meta_record("inode.with_parent", with_parent),
      meta_record("inode.mirrored_with_parent", mirrored_with_parent),
      meta_record("inode.linked", linked),
      meta_record("data_group", sample_group()),
      meta_record("removal.mirrored", meta::RemovalRecord{sample_mirrored_layout(), kTime}),
      meta_record("truncate_intent.mirrored", meta::TruncateIntent{0x123456789A, 43, kTime, sample_mirrored_layout()}),
      meta_record("inode.with_distribution", with_distribution),
      meta_record("inode.two_dimensional", two_dimensional),
      meta_record("superblock", meta::Superblock{kFs, 2, kTime, 0x5EED5EED5EED5EED, 63}),
      meta_record("cluster", cluster()),
      meta_record("cluster.racks", cluster_with_racks()),
      meta_record("counter", meta::CounterRecord{0x123456}),
      meta_record("counter.skipped", meta::CounterRecord{0x123456, {{0x1234, 0x5678}, {0x9ABC, 0xDEF0}}}),
      meta_record("revoked_keys",
                  meta::RevokedKeysRecord{{{KeyId{std::byte{7}}, kTime}, {KeyId{std::byte{8}}, kTime}}, {}}),
      meta_record(
          "revoked_keys.ends",
          meta::RevokedKeysRecord{{{KeyId{std::byte{7}}, kTime}, {KeyId{std::byte{8}}, kTime}}, {WallTime(), kTime}}),
      meta_record("inode", inode(FileType::kRegular)),
      meta_record("inode.truncating", truncating),
      meta_record("inode.directory", inode(FileType::kDirectory)),
      meta_record("inode.symlink", inode(FileType::kSymlink)),
      meta_record("entry", meta::EntryRecord{kFile, FileType::kSymlink}),
      meta_record("session", session()),
      meta_record("session.user_key", with_key),
      meta_record("open", meta::OpenRecord{3, 4}),
      meta_record("removal", meta::RemovalRecord{sample_layout(), kTime}),
      meta_record("truncate_intent", meta::TruncateIntent{0x123456789A, 43, kTime, sample_layout()}),
      meta_record("truncate_intent.asked", asked),
      meta_record("unsettled", meta::UnsettledRecord{kTime}),
      meta_record("answer", answer),
      meta_record("answer.refusal", refusal),
      meta_record("queue", meta::QueueRecord{6, 0x1718, {{0x1234, 0x5678}, {0x9ABC, 0xDEF0}}}),
  };
}

std::vector<Item> meta_keys() {
  const ClientId client(0x0102030405060708);
  const meta::NameHash hash{0x5EED5EED5EED5EED, 63};
  return {
      key("meta/key.inode", meta::inode_key(kFile).bytes()),
      key("meta/key.entry", meta::entry_key(kRootHandle, hash("notes.txt"), "notes.txt").bytes()),
      key("meta/key.xattr", meta::xattr_key(kFile, "user.colour").bytes()),
      key("meta/key.session", meta::session_key(client).bytes()),
      key("meta/key.answer", meta::answer_key(client, 0x0304).bytes()),
      key("meta/key.open", meta::open_key(kFile, client, 0x05060708).bytes()),
      key("meta/key.removal", meta::removal_key(kFile).bytes()),
      key("meta/key.truncate", meta::truncate_key(kFile).bytes()),
      key("meta/key.unsettled", meta::unsettled_key(kFile).bytes()),
      key("meta/key.global", meta::global_key("superblock").bytes()),
      key("meta/key.queue", meta::queue_key(client).bytes()),
      key("meta/key.data_group", meta::data_group_key(TargetId(0x01000002)).bytes()),
  };
}

std::vector<Item> io_items() {
  const io::DatafileKey datafile{TargetId(513), {kFile, 3}};
  return {
      io_record("truncate", io::TruncateRecord{43, 0x8899AABBCCDDEEFF}, io::decode_truncate),
      io_record("tombstone", io::TombstoneRecord{kTime}, io::decode_tombstone),
      io_record("identity", io::IdentityRecord{FsId(0x8d7c1f0a92b34e56), ServerId(2)}, io::decode_identity),
      io_record("fence", io::FenceRecord{6, kTime}, io::decode_fence),
      io_record("loss", io::LossRecord{0x123456789ABCDEF0, 0x1122334455667788}, io::decode_loss),
      io_record("redone", io::RedoneRecord{0x1122334455667788}, io::decode_redone),
      io_record("joining", io::JoiningRecord{}, io::decode_joining),
      io_record("number_marks", io::NumberMarksRecord{0x123456789A, 0x2345}, io::decode_number_marks),
      io_record("group_note", io::GroupNote{sample_group(), true, 0x1122334455667788}, io::decode_group_note),
      key("io/change", io::encode_change(0x0102030405060708)),
      key("io/key.group_note", io::group_note_key(TargetId(0x01000002))),
      key("io/key.change", io::change_key(TargetId(0x01000002), {datafile.id, true, 0x0405060708090A0B})),
      key("io/key.group_datafile", io::group_datafile_key(TargetId(0x01000002), datafile.id)),
      key("io/key.joining", io::joining_key()),
      key("io/key.identity", io::identity_key()),
      key("io/key.redone", io::redone_key()),
      key("io/key.number_marks", io::number_marks_key()),
      key("io/key.truncate", io::truncate_key(datafile)),
      key("io/key.loss", io::loss_key(datafile)),
      key("io/key.tombstone", io::tombstone_key(datafile)),
      key("io/key.tombstone_end", io::tombstone_end_key(kTime, datafile)),
      key("io/key.fence", io::fence_key(ClientId(0x0102030405060708))),
  };
}

}  // namespace

std::vector<Item> record_items() {
  std::vector<Item> items = meta_items();
  for (auto part : {meta_keys(), io_items()}) items.insert(items.end(), part.begin(), part.end());
  return items;
}

}  // namespace spate::golden
