// SPDX-License-Identifier: Apache-2.0
#include "group/messages.h"

#include "base/expect.h"

namespace spate::group {
namespace {

Message sample() {
  Message message;
  message.kind = MessageKind::kAppend;
  message.group = 3;
  message.from = ServerId(2);
  message.epoch = 9;
  message.revision = 77;
  message.record = new_group({ServerId(2), ServerId(5)}, 1);
  message.position = {8, 100};
  message.entries = {std::make_shared<const Bytes>(Bytes{std::byte{1}, std::byte{2}})};
  message.page = {{Bytes{std::byte{3}}, Bytes{}}};
  message.process = 4;
  message.copy = 5;
  message.number = 6;
  return message;
}

TEST(GroupMessages, MessageDecodeReversesEncode) {
  const Bytes encoded = encode(sample());
  const auto decoded = decode_message(encoded);
  ASSERT_OK(decoded);
  EXPECT_EQ(encode(*decoded), encoded);
  EXPECT_EQ(decoded->position.index, 100U);
  ASSERT_EQ(decoded->entries.size(), 1U);
  EXPECT_EQ(*decoded->entries.front(), *sample().entries.front());
}

TEST(GroupMessages, TruncatedMessagesAreRefused) {
  const Bytes encoded = encode(sample());
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_ERRC(decode_message(ByteView(encoded).first(size)), Errc::kProtocol);
  }
}

TEST(GroupMessages, AnswerDecodeReversesEncode) {
  Answer answer;
  answer.accepted = true;
  answer.epoch = 4;
  answer.last = {4, 12};
  answer.up_to = 11;
  answer.tail_unknown = true;
  const Bytes encoded = encode(answer);
  const auto decoded = decode_answer(encoded);
  ASSERT_OK(decoded);
  EXPECT_EQ(encode(*decoded), encoded);
  EXPECT_ERRC(decode_answer(ByteView(encoded).first(encoded.size() - 1)), Errc::kProtocol);
}

/// Earlier versions end the answer before it.
TEST(GroupMessages, AnAnswerTellsTheMinimumIfItIsKnown) {
  Answer answer;
  const std::size_t without = encode(answer).size();
  answer.min = 2;
  const Bytes encoded = encode(answer);
  const auto decoded = decode_answer(encoded);
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->min, 2U);
  const auto earlier = decode_answer(ByteView(encoded).first(without));
  ASSERT_OK(earlier);
  EXPECT_EQ(earlier->min, 0U);
  EXPECT_ERRC(decode_answer(ByteView(encoded).first(without + 1)), Errc::kProtocol);
}

TEST(GroupRecord, DecodeReversesEncode) {
  GroupRecord record = new_group({ServerId(1), ServerId(2), ServerId(3)}, 2);
  record.epoch = 12;
  record.members[1].serving = false;
  record.members[2].process = 99;
  const auto decoded = decode_group_record(encode(record));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, record);
}

TEST(GroupRecord, ANewerVersionIsRefused) {
  Bytes bytes = encode(new_group({ServerId(1)}, 1));
  bytes.front() = std::byte{2};
  EXPECT_ERRC(decode_group_record(bytes), Errc::kFormatTooNew);
}

TEST(GroupRecord, NamesEachMemberOnceAndThePrimaryAmongThem) {
  GroupRecord record = new_group({ServerId(1), ServerId(2)}, 1);
  record.members[1].server = ServerId(1);
  EXPECT_ERRC(decode_group_record(encode(record)), Errc::kCorrupt);
  record = new_group({ServerId(1), ServerId(2)}, 1);
  record.primary = ServerId(7);
  EXPECT_ERRC(decode_group_record(encode(record)), Errc::kCorrupt);
}

/// With a larger number no change would ever be answered.
TEST(GroupRecord, ANumberOfCopiesThatTheMembersCannotReachIsRefused) {
  EXPECT_OK(decode_group_record(encode(new_group({ServerId(1), ServerId(2)}, 2))));
  EXPECT_ERRC(decode_group_record(encode(new_group({ServerId(1), ServerId(2)}, 3))), Errc::kCorrupt);
  EXPECT_ERRC(decode_group_record(encode(new_group({ServerId(1), ServerId(2)}, 0))), Errc::kCorrupt);
}

}  // namespace
}  // namespace spate::group
