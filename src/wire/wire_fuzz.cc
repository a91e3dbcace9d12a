// SPDX-License-Identifier: Apache-2.0
// Fuzzer: gives any bytes to the decoder of every message. A decoded message must encode to the same bytes; if several
// encodings mean the same, to bytes that are stable from then on. Input: kind, low byte of the operation, message.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "wire/messages.h"

namespace spate::wire {
namespace {

/// Descriptions get their canonical form, and unknown errors (`status`, of several changes in each of `answers`) become
/// kUnknown. Everything else has one encoding.
template <typename M>
constexpr bool kOneEncoding =
    !requires(M m) { m.what; } && !requires(M m) { m.status; } && !requires(M m) { m.answers; };

template <typename M>
void check(ByteView input) {
  const auto message = decode_body<M>(input);
  if (!message) {
    SPATE_CHECK(message.code() == Errc::kCorrupt);
    return;
  }
  Bytes once;
  encode_body(*message, once);
  if (kOneEncoding<M>) SPATE_CHECK(std::ranges::equal(once, input));
  const auto again = decode_body<M>(once);
  SPATE_CHECK(again);
  Bytes twice;
  encode_body(*again, twice);
  SPATE_CHECK(once == twice);
}

/// Decodes values that travel inside of messages by themselves.
template <typename T>
struct AsBody {
  static constexpr std::string_view kName = "value";
  T value;
  template <typename A>
  void fields(A& a) {
    a(value);
  }
};

enum class Which : std::uint8_t { kRequest, kReply };

void check_body(Which which, std::uint8_t op_number, ByteView input) {
  for_each_operation([&]<typename Request, typename Reply>(Op op) {
    if (static_cast<std::uint8_t>(op) != op_number) return;
    which == Which::kRequest ? check<Request>(input) : check<Reply>(input);
  });
}

/// Decodes the header, then the body of its operation, as a server does.
void check_whole(ByteView input) {
  Reader reader(input);
  RequestHeader header;
  reader(header);
  if (!reader.decoder().ok()) return;
  const ByteView body = input.last(reader.decoder().remaining());
  Bytes head;
  encode_body(header, head);
  SPATE_CHECK(std::ranges::equal(head, input.first(input.size() - body.size())));
  check_body(Which::kRequest, static_cast<std::uint8_t>(header.op), body);
}

void run(std::uint8_t kind, std::uint8_t op, ByteView input) {
  switch (kind) {
    case 0: return check<RequestHeader>(input);
    case 1: return check<ReplyHeader>(input);
    case 2: return check_body(Which::kRequest, op, input);
    case 3: return check_body(Which::kReply, op, input);
    case 4: return check<AsBody<Capability>>(input);
    case 5: return check<AsBody<SessionTicket>>(input);
    case 6: return check<AsBody<Attributes>>(input);
    case 7: return check_whole(input);
    default: return;
  }
}

}  // namespace
}  // namespace spate::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  spate::wire::run(data[0], data[1], {reinterpret_cast<const std::byte*>(data) + 2, size - 2});
  return 0;
}
