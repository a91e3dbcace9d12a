// SPDX-License-Identifier: Apache-2.0
#include "rpc/reply_writer.h"

#include <array>
#include <optional>

#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::rpc {
namespace {

constexpr std::size_t kMaxContextBytes = 512;
/// Bytes of context in a reply that reports a link that leads out of the file system: programs need all of it, the
/// link's target and the rest of the path.
constexpr std::size_t kMaxLinkContextBytes = kMaxSymlinkBytes + kMaxPathBytes;

}  // namespace

wire::ReplyHeader ReplyWriter::header(const Call& call) const {
  wire::ReplyHeader header;
  header.version = call.header.version;
  header.incarnation = incarnation_;
  header.map_version = map_version_;
  return header;
}

/// Encodes the header. A result that does not fit the caller's room becomes an error.
Bytes ReplyWriter::encode_head(const Call& call, Result<Bytes>& result) const {
  wire::ReplyHeader head = header(call);
  const auto fail = [&head](const Error& error) {
    head.status = error.code();
    const std::size_t most = error.code() == Errc::kCrossDevice ? kMaxLinkContextBytes : kMaxContextBytes;
    head.context = wire::context_of(error).substr(0, most);
  };
  if (!result) fail(result.error());
  Bytes out;
  wire::encode_body(head, out);
  if (result && out.size() + result->size() > call.header.reply_room) {
    result = Error::told(Errc::kMessageTooBig, "the reply is larger than the room that the client has posted");
    fail(result.error());
    out.clear();
    wire::encode_body(head, out);
  }
  return out;
}

job::Task<void> ReplyWriter::send(Call& call, Result<Bytes> result) {
  const Bytes head = encode_head(call, result);
  std::array<bmi::Segment, 3> segments{bmi::Segment::of(ByteView(head)), bmi::Segment{}, bmi::Segment{}};
  std::size_t count = 1;
  const ByteView body = result ? ByteView(*result) : ByteView();
  if (!body.empty()) segments[count++] = bmi::Segment::of(body);
  Umac64::Code code{};
  if (call.sealed) {
    code = call.peer->sealing->seals.seal(call.tag, {head, body});
    segments[count++] = bmi::Segment::of(ByteView(code));
  }
  bmi::Message message;
  message.peer = call.address;
  message.tag = call.tag;
  message.segments = bmi::SegmentList(segments.data(), count);
  message.receiver_ready = true;  // the caller posted a receive before it sent the request
  job::NetworkOp send(network_);
  send.post_send(message);
  // The request's deadline has passed, and the reply names the obstacle for which the request waited. The caller has
  // kept time for this reply.
  std::optional<job::DeadlineScope> late;
  if (call.stop.stopped()) {
    late.emplace(network_.executor(), network_.executor().now() + kReplyGrace, stopping_);
  }
  const auto sent = co_await send.wait(late ? late->token() : call.stop);
  if (!sent)
    SPATE_LOG("rpc", debug, "reply not sent op={} error={} trace={}", op_name(call.header.op), sent.error(),
              call.header.trace);
}

}  // namespace spate::rpc
