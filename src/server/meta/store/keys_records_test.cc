// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>

#include "base/expect.h"
#include "dist/registry.h"
#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"
#include "trove/key_order.h"

namespace spate::meta {
namespace {

std::string hex_of(ByteView key) {
  std::ostringstream text;
  text << std::hex << std::setfill('0');
  for (const std::byte b : key) text << std::setw(2) << std::to_integer<unsigned>(b);
  return text.str();
}

::testing::AssertionResult before(ByteView a, ByteView b) {
  const bool is = trove::compare_keys(a, b) < 0;
  return ::testing::AssertionResult(is) << hex_of(a) << (is ? " is before " : " is not before ") << hex_of(b);
}

::testing::AssertionResult within(ByteView key, const trove::KeyRange& range) {
  const bool is = !before(key, range.begin) && before(key, range.end);
  return ::testing::AssertionResult(is) << hex_of(key) << (is ? " is" : " is not") << " within [" << hex_of(range.begin)
                                        << ", " << hex_of(range.end) << ")";
}

TEST(MetaKeys, SortByNumber) {
  EXPECT_TRUE(before(inode_key(Handle(255)), inode_key(Handle(256))));
  EXPECT_TRUE(before(inode_key(Handle(1)), inode_key(Handle(UINT64_MAX))));
  EXPECT_TRUE(before(entry_key(Handle(7), 9, "b"), entry_key(Handle(7), 10, "a")));
  EXPECT_TRUE(before(answer_key(ClientId(3), 255), answer_key(ClientId(3), 256)));
}

TEST(MetaKeys, EntriesAfterACookieLeaveOutEqualHashes) {
  const trove::KeyRange rest = entries_after(Handle(7), 9);
  EXPECT_FALSE(within(entry_key(Handle(7), 9, std::string(255, '\xFF')), rest));
  EXPECT_TRUE(within(entry_key(Handle(7), 10, "a"), rest));
  EXPECT_FALSE(within(entry_key(Handle(8), 10, "a"), rest));
  const trove::KeyRange all = entries_after(Handle(7), 0);
  EXPECT_TRUE(within(entry_key(Handle(7), 1, "a"), all));
  EXPECT_TRUE(within(entry_key(Handle(7), UINT64_MAX >> 1U, std::string(255, '\xFF')), all));
  EXPECT_FALSE(within(entry_key(Handle(6), 5, "a"), all));
}

TEST(MetaKeys, RangesOfTheLargestHandleHoldItsKeysOnly) {
  const Handle last(UINT64_MAX);
  EXPECT_TRUE(within(xattr_key(last, "user.a"), xattrs_of(last)));
  EXPECT_TRUE(within(open_key(last, ClientId(UINT64_MAX), UINT32_MAX), opens_of(last)));
  EXPECT_FALSE(within(open_key(Handle(UINT64_MAX - 1), ClientId(1), 1), opens_of(last)));
  EXPECT_TRUE(within(open_key(last, ClientId(7), UINT32_MAX), opens_of(last, ClientId(7))));
  EXPECT_FALSE(within(open_key(last, ClientId(8), 1), opens_of(last, ClientId(7))));
  EXPECT_FALSE(within(inode_key(last), xattrs_of(last)));
}

TEST(MetaKeys, AreParsedAgain) {
  const Bytes entry = entry_key(Handle(7), 77, "name").bytes();
  const auto parts = parse_entry_key(entry);
  ASSERT_NE(parts, std::nullopt);
  EXPECT_EQ(parts->hash, 77U);
  EXPECT_EQ(parts->name, "name");
  const Bytes open = open_key(Handle(5), ClientId(6), 0x01020304).bytes();
  const auto opened = parse_open_key(open);
  ASSERT_NE(opened, std::nullopt);
  EXPECT_EQ(opened->handle, Handle(5));
  EXPECT_EQ(opened->client, ClientId(6));
  EXPECT_EQ(opened->epoch, 0x01020304U);
  EXPECT_EQ(parse_entry_key(open), std::nullopt);
  EXPECT_EQ(parse_open_key(ByteView(open).first(20)), std::nullopt);
  EXPECT_EQ(parse_xattr_key(ByteView(xattr_key(Handle(5), "u").bytes()).first(9)), std::nullopt);
}

TEST(MetaKeys, HashesOfNamesAreCookies) {
  const NameHash hash{1234, 63};
  EXPECT_LT(hash("name"), 1ULL << 63U);
  EXPECT_NE(hash("name"), (NameHash{1235, 63}("name")));
  const NameHash narrow{1234, 1};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(narrow("n" + std::to_string(i)), 1U);  // 0 means the beginning of a listing
}

InodeRecord some_file() {
  InodeRecord inode;
  inode.attributes.handle = Handle(17);
  inode.attributes.mode = 0644;
  inode.attributes.mtime = WallTime{-5};
  inode.layout = Layout{};
  inode.layout->slots = {Slot{{TargetId(256)}}, Slot{{TargetId(512), TargetId(513)}}};
  inode.write_opens = 2;
  inode.writers = 1;
  inode.write_generation = 3;
  inode.truncate_generation = 9;
  return inode;
}

InodeRecord mirrored_file() {
  InodeRecord inode = some_file();
  inode.layout->redundancy = Redundancy::kMirror;
  inode.layout->slots = {Slot{{kFirstGroup}}};
  return inode;
}

InodeRecord some_directory() {
  InodeRecord inode;
  inode.attributes.handle = Handle(18);
  inode.attributes.type = FileType::kDirectory;
  inode.parent = kRootHandle;
  inode.entries_version = 3;
  inode.hints.strip_bytes = 65536;
  inode.hints.first_target = TargetId(256);
  inode.xattr_count = 2;
  return inode;
}

template <typename Record>
void expect_round_trip(const Record& record) {
  const Bytes bytes = encoded(record);
  const auto back = decode_record<Record>(bytes);
  ASSERT_OK(back);
  EXPECT_EQ(*back, record);
  Bytes newer = bytes;
  newer[0] = std::byte{99};
  EXPECT_ERRC(decode_record<Record>(newer), Errc::kFormatTooNew);
  Bytes unversioned = bytes;
  unversioned[0] = std::byte{0};
  EXPECT_ERRC(decode_record<Record>(unversioned), Errc::kCorrupt);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_ERRC(decode_record<Record>(ByteView(bytes).first(cut)), Errc::kCorrupt) << cut;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_ERRC(decode_record<Record>(longer), Errc::kCorrupt);
}

/// A server that takes the number of a group for that of a target would lose track of the data.
TEST(MetaRecords, AnOlderServerRefusesRecordsThatNameGroups) {
  EXPECT_EQ(encoded(some_file())[0], std::byte{1});
  EXPECT_EQ(encoded(mirrored_file())[0], std::byte{6});
  EXPECT_EQ(encoded(RemovalRecord{*some_file().layout, WallTime{5}})[0], std::byte{1});
  EXPECT_EQ(encoded(RemovalRecord{*mirrored_file().layout, WallTime{5}})[0], std::byte{2});
  EXPECT_EQ(encoded(TruncateIntent{7, 8, WallTime{5}, *mirrored_file().layout})[0], std::byte{3});
}

InodeRecord with_parent(InodeRecord inode) {
  inode.parent = Handle(18);
  return inode;
}

/// An older server takes a file with a parent for damage, so it must see another version.
TEST(MetaRecords, AParentCostsOneByteAndAVersion) {
  const Bytes without = encoded(some_file());
  const Bytes with = encoded(with_parent(some_file()));
  EXPECT_EQ(without[0], std::byte{1});
  EXPECT_EQ(with[0], std::byte{7});
  EXPECT_EQ(with.size(), without.size() + 1);
  EXPECT_EQ(with.back(), std::byte{1});
  EXPECT_EQ(encoded(with_parent(mirrored_file())).size(), encoded(mirrored_file()).size() + 1);
  EXPECT_EQ(encoded(some_directory())[0], std::byte{1});
}

TEST(MetaRecords, AParentStandsBesideTheFieldsOfEveryVersion) {
  InodeRecord lists = some_file();
  lists.acl = {{1, 7, ~0U}, {4, 5, ~0U}, {32, 0, ~0U}};
  InodeRecord written = some_file();
  written.written_by_users = true;
  InodeRecord distributed = some_file();
  distributed.layout->distribution = *parse_distribution("twod_stripe:2,16");
  InodeRecord writers = some_file();
  writers.writers = 2;
  std::uint8_t version = 1;
  for (const InodeRecord& inode : {some_file(), lists, written, distributed, writers, mirrored_file()}) {
    const Bytes bytes = encoded(with_parent(inode));
    EXPECT_EQ(bytes[0], std::byte{7});
    expect_round_trip(with_parent(inode));
    EXPECT_EQ(encoded(inode)[0], std::byte{version++});
  }
  InodeRecord linked = with_parent(mirrored_file());
  linked.second_parent = Handle(18);
  EXPECT_EQ(encoded(linked)[0], std::byte{8});
  EXPECT_EQ(encoded(linked).size(), encoded(with_parent(mirrored_file())).size() + 8);
  expect_round_trip(linked);
  linked.parent = Handle();  // a second one without a first one
  EXPECT_ERRC(decode_record<InodeRecord>(encoded(linked)), Errc::kCorrupt);
  Bytes bytes = encoded(with_parent(some_file()));
  bytes.back() = std::byte{7};  // itself
  EXPECT_ERRC(decode_record<InodeRecord>(bytes), Errc::kCorrupt);
  bytes = encoded(with_parent(written));
  bytes.back() = std::byte{0};  // then its record has no reason for version 3
  EXPECT_ERRC(decode_record<InodeRecord>(bytes), Errc::kCorrupt);
}

TEST(MetaRecords, HandlesOfAQueueAreUsedInTheirOrder) {
  QueueRecord queue{1, 0, {{5, 8}, {100, 102}}};
  EXPECT_FALSE(queue.take(4));
  EXPECT_FALSE(queue.take(8));
  EXPECT_TRUE(queue.take(5));
  EXPECT_FALSE(queue.take(5));
  EXPECT_TRUE(queue.take(7));
  EXPECT_EQ(queue.ranges, (std::vector<NumberRange>{{100, 102}}));
  EXPECT_TRUE(queue.take(101));
  EXPECT_EQ(queue.ranges, std::vector<NumberRange>());
  EXPECT_FALSE(queue.take(100));
  queue.ranges = {{5, 8}, {100, 102}};
  EXPECT_TRUE(queue.take(100));
  EXPECT_EQ(queue.ranges, (std::vector<NumberRange>{{101, 102}}));
}

TEST(MetaRecords, DecodeReversesEncode) {
  expect_round_trip(Superblock{FsId(7), 1, WallTime{5}, 99, 63});
  expect_round_trip(CounterRecord{65536});
  expect_round_trip(CounterRecord{65536, {{5, 10}, {100, 65536}}});
  SessionRecord with_key;
  with_key.client = ClientId(7);
  with_key.user_key = KeyId{std::byte{9}};
  expect_round_trip(with_key);
  const RevokedKeysRecord revoked{{{KeyId{std::byte{1}}, WallTime{5}}, {KeyId{std::byte{2}}, WallTime{4}}}, {}};
  expect_round_trip(revoked);
  expect_round_trip(RevokedKeysRecord{revoked.keys, {WallTime{7}, WallTime{0}}});
  expect_round_trip(some_file());
  expect_round_trip(some_directory());
  expect_round_trip(mirrored_file());
  InodeRecord mirrors = some_directory();
  mirrors.hints.replicas = 3;
  expect_round_trip(mirrors);
  mirrors.hints.min_copies = 2;
  expect_round_trip(mirrors);
  mirrors.hints.replicas.reset();  // the file system's default
  expect_round_trip(mirrors);
  DataGroup group;
  group.id = kFirstGroup;
  group.primary = TargetId(256);
  group.members = {{TargetId(256), MemberState::kServing}, {TargetId(512), MemberState::kAbsent}};
  expect_round_trip(group);
  expect_round_trip(RemovalRecord{*mirrored_file().layout, WallTime{5}});
  expect_round_trip(TruncateIntent{7, 8, WallTime{5}, *mirrored_file().layout});
  expect_round_trip(EntryRecord{Handle(3), FileType::kSymlink});
  SessionRecord session;
  session.client = ClientId(4);
  session.credential = {1, 2, {3, 4}};
  session.description = "host:1:program";
  session.epoch = 3;
  session.released_epoch = 2;
  session.state = SessionState::kExpired;
  session.ended = WallTime{9};
  expect_round_trip(session);
  expect_round_trip(OpenRecord{1, 2});
  expect_round_trip(RemovalRecord{*some_file().layout, WallTime{8}});
  expect_round_trip(TruncateIntent{100, 2, WallTime{8}, *some_file().layout});
  TruncateIntent asked{100, 2, WallTime{8}, *some_file().layout};
  asked.asker = {ClientId(3), 4, 5, 6, Rights::kReadWrite};
  expect_round_trip(asked);
  asked.before = 50;
  expect_round_trip(asked);
  expect_round_trip(UnsettledRecord{WallTime{8}});
  AnswerRecord answer;
  answer.sequence = 5;
  answer.op = wire::Op::kMkdir;
  answer.body = to_bytes(as_bytes("body"));
  answer.truncates = Handle(7);
  expect_round_trip(answer);
  expect_round_trip(AnswerRecord{6, wire::Op::kMkdir, Errc::kExists, "why", {}, {}});
  expect_round_trip(QueueRecord{1, 0, {}});
  expect_round_trip(QueueRecord{6, 7, {{5, 10}, {100, 65536}}});
  for (const std::vector<NumberRange>& bad :
       {std::vector<NumberRange>{{5, 5}}, {{5, 10}, {9, 12}}, {{1, 2}, {3, 4}, {5, 6}}})
    EXPECT_ERRC(decode_record<QueueRecord>(encoded(QueueRecord{6, 7, bad})), Errc::kCorrupt);
}

std::string hex(ByteView bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(b) >> 4U];
    text += "0123456789abcdef"[static_cast<unsigned>(b) & 15U];
  }
  return text;
}

// The codecs of the wire write the stored form. It must stay as docs/disk-meta.md describes it even if they change.
TEST(MetaRecords, HaveTheDocumentedBytes) {
  EXPECT_EQ(hex(encoded(EntryRecord{Handle(0x0102), FileType::kSymlink})),
            "01"
            "0201000000000000"
            "03");
  EXPECT_EQ(hex(encoded(OpenRecord{1, 2})),
            "01"
            "01000000"
            "02000000");
  EXPECT_EQ(hex(encoded(Superblock{FsId(7), 1, WallTime{-1}, 9, 63})),
            "01"
            "0700000000000000"
            "0100"
            "ffffffffffffffff"
            "0900000000000000"
            "3f");
  const std::string layout =
      "01000000"
      "01"
      "00"
      "0000100000000000"
      "02000000"
      "01"
      "00010000"
      "02"
      "00020000"
      "01020000";
  EXPECT_EQ(hex(encoded(RemovalRecord{*some_file().layout, WallTime{8}})), "01" + layout + "0800000000000000");
  EXPECT_EQ(hex(encoded(TruncateIntent{3, 2, WallTime{8}, *some_file().layout})),
            "01"
            "0300000000000000"
            "0200000000000000"
            "0800000000000000" +
                layout);
  EXPECT_EQ(hex(encoded(AnswerRecord{5, wire::Op::kMkdir, Errc::kExists, "w", {}, Handle(2)})),
            "01"
            "0500000000000000"
            "1800"
            "1500"
            "01000000"
            "77"
            "00000000"
            "0200000000000000");
  InodeRecord inode = some_directory();
  Attributes& a = inode.attributes;
  a = {Handle(1), FileType::kDirectory, 0777, 2, 3, 4, 5, 6, 7, 8, {9}, {10}, {11}, {12}, 13, true, 14};
  inode.write_opens = 16;
  inode.truncating = true;
  inode.write_generation = 17;
  inode.truncate_generation = 15;
  const auto u64 = [](int v) {
    return hex(ByteView{std::array<std::byte, 1>{static_cast<std::byte>(v)}}) + "00000000000000";
  };
  const auto u32 = [](int v) { return hex(ByteView{std::array<std::byte, 1>{static_cast<std::byte>(v)}}) + "000000"; };
  EXPECT_EQ(hex(encoded(inode)), "01" + u64(1) + "02" + "ff010000" + u32(2) + u32(3) + u32(4) + u32(5) + u64(6) +
                                     u64(7) + u64(8) + u64(9) + u64(10) + u64(11) + u64(12) + u64(13) + "01" + u64(14) +
                                     "00" + u32(0) + u64(1) + u64(3) + "01" + "0000010000000000" + "00" + "01" +
                                     "00010000" + u32(16) + "000100" + u64(17) + u64(15) + u32(2) + u32(0));
}

TEST(MetaRecords, ImpossibleValuesAreCorrupt) {
  InodeRecord without_layout = some_file();
  without_layout.layout.reset();
  EXPECT_ERRC(decode_record<InodeRecord>(encoded(without_layout)), Errc::kCorrupt);
  InodeRecord orphan = some_directory();
  orphan.parent = Handle();
  EXPECT_ERRC(decode_record<InodeRecord>(encoded(orphan)), Errc::kCorrupt);
  InodeRecord strange = some_directory();
  strange.attributes.type = static_cast<FileType>(8);
  EXPECT_ERRC(decode_record<InodeRecord>(encoded(strange)), Errc::kCorrupt);
  EXPECT_ERRC(decode_record<OpenRecord>(encoded(OpenRecord{})), Errc::kCorrupt);
  EXPECT_ERRC(decode_record<EntryRecord>(encoded(EntryRecord{})), Errc::kCorrupt);
  const RevokedKeysRecord one_end_too_many{{{KeyId{std::byte{1}}, WallTime{5}}}, {WallTime{7}, WallTime{8}}};
  EXPECT_ERRC(decode_record<RevokedKeysRecord>(encoded(one_end_too_many)), Errc::kCorrupt);
}

}  // namespace
}  // namespace spate::meta
