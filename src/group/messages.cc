// SPDX-License-Identifier: Apache-2.0
#include "group/messages.h"

#include "base/codec.h"

namespace spate::group {
namespace {

void put(Encoder& out, trove::LogPosition position) {
  out.u64(position.epoch);
  out.u64(position.index);
}

trove::LogPosition take_position(Decoder& in) {
  trove::LogPosition position;
  position.epoch = in.u64();
  position.index = in.u64();
  return position;
}

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMostRecord = 4096;

}  // namespace

Bytes encode(const Message& message) {
  Bytes out;
  Encoder encoder(out);
  encoder.u8(static_cast<std::uint8_t>(message.kind));
  encoder.u32(message.group);
  encoder.u32(message.from.value);
  encoder.u64(message.epoch);
  encoder.u64(message.revision);
  encoder.blob(encode(message.record));
  put(encoder, message.position);
  encoder.u32(static_cast<std::uint32_t>(message.entries.size()));
  for (const EntryRef& entry : message.entries) encoder.blob(*entry);
  encoder.u32(static_cast<std::uint32_t>(message.page.size()));
  for (const trove::KeyValue& each : message.page) {
    encoder.blob(each.key);
    encoder.blob(each.value);
  }
  encoder.u64(message.process);
  encoder.u64(message.copy);
  encoder.u64(message.number);
  return out;
}

Result<Message> decode_message(ByteView bytes) {
  Decoder in(bytes);
  Message message;
  const std::uint8_t kind = in.u8();
  if (kind >= kMessageKinds) in.fail();
  message.kind = static_cast<MessageKind>(kind);
  message.group = in.u32();
  message.from = ServerId(in.u32());
  message.epoch = in.u64();
  message.revision = in.u64();
  auto record = decode_group_record(in.blob(kMostRecord));
  if (!record) return Error(Errc::kProtocol, "message of a group");
  message.record = *std::move(record);
  message.position = take_position(in);
  const std::uint32_t entries = in.count(kLengthBytes);
  for (std::uint32_t i = 0; i < entries && in.ok(); ++i) {
    message.entries.push_back(std::make_shared<const Bytes>(to_bytes(in.blob(kMostPayload))));
  }
  const std::uint32_t page = in.count(2 * kLengthBytes);
  for (std::uint32_t i = 0; i < page && in.ok(); ++i) {
    trove::KeyValue each;
    each.key = to_bytes(in.blob(kMostPayload));
    each.value = to_bytes(in.blob(kMostPayload));
    message.page.push_back(std::move(each));
  }
  message.process = in.u64();
  message.copy = in.u64();
  message.number = in.u64();
  if (!in.finish("message")) return Error(Errc::kProtocol, "message of a group");
  return message;
}

Bytes encode(const Answer& answer) {
  Bytes out;
  Encoder encoder(out);
  encoder.flag(answer.accepted);
  encoder.u64(answer.epoch);
  encoder.u64(answer.revision);
  encoder.u64(answer.process);
  put(encoder, answer.last);
  encoder.flag(answer.matched);
  encoder.u64(answer.up_to);
  encoder.flag(answer.tail_unknown);
  encoder.flag(answer.incomplete);
  encoder.flag(answer.short_of_space);
  if (answer.min != 0) encoder.u32(answer.min);
  return out;
}

Result<Answer> decode_answer(ByteView bytes) {
  Decoder in(bytes);
  Answer answer;
  answer.accepted = in.flag();
  answer.epoch = in.u64();
  answer.revision = in.u64();
  answer.process = in.u64();
  answer.last = take_position(in);
  answer.matched = in.flag();
  answer.up_to = in.u64();
  answer.tail_unknown = in.flag();
  answer.incomplete = in.flag();
  answer.short_of_space = in.flag();
  if (in.remaining() > 0) {
    answer.min = in.u32();
    if (answer.min == 0) in.fail();
  }
  if (!in.finish("answer")) return Error(Errc::kProtocol, "answer of a member of a group");
  return answer;
}

}  // namespace spate::group
