// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "bmi/tcp/frame.h"
#include "bmi/tcp/hello.h"
#include "tests/golden/catalog.h"

namespace spate::golden {
namespace {

using namespace bmi::tcp;  // NOLINT(google-build-using-namespace)

/// `decode` takes a pointer, as the module's decoders do, and reads as many bytes as `value` has.
template <typename T, typename Decode>
Item item_of(const std::string& name, const T& value, Decode decode) {
  const auto bytes = encode(value);
  Item item;
  item.name = "tcp/" + name;
  item.comment = name + " of the tcp module, version 1: docs/wire-tcp.md";
  item.bytes = to_bytes(ByteView(bytes));
  item.read = [value, decode, size = item.bytes.size()](ByteView given) -> std::string {
    if (given.size() != size) return "is of another size";
    const auto read = decode(given.data());
    if (!read) return "is refused";
    return *read == value ? "" : "is read as another value";
  };
  return item;
}

std::string_view name_of(FrameType type) {
  if (type == kCredit) return "credit";
  if (type == kOpenBulk) return "open_bulk";
  switch (type) {
    case FrameType::kEager: return "eager";
    case FrameType::kUnexpected: return "unexpected";
    case FrameType::kReady: return "ready";
    case FrameType::kAnnounce: return "announce";
    case FrameType::kClear: return "clear";
    case FrameType::kData: return "data";
    case FrameType::kWithdraw: return "withdraw";
    case FrameType::kNoData: return "no_data";
    default: return {};
  }
}

Hello hello() {
  Hello h;
  h.versions.min = 1;
  h.versions.max = 3;
  h.channel = 2;
  h.bulk_connections = 4;
  for (std::size_t i = 0; i < h.link.size(); ++i) h.link[i] = static_cast<std::byte>(0x30 + i);
  h.token = 0x4142434445464748;
  h.limits = {0x100000, 0x40000, 8192};
  return h;
}

/// The proof that each side of a bulk connection of version 2 sends after the Welcome.
Item proof(const std::string& name, Side side) {
  Hello h = hello();
  h.versions.min = h.versions.max = kProvingVersion;
  h.limits = {};
  Key key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(0x50 + i);
  const LinkProof made = link_proof(key, side, encode(h), encode(Welcome{Errc::kOk, kProvingVersion, 0x51, {}}));
  Item item;
  item.name = "tcp/" + name;
  item.comment = name + " of the tcp module, version 2: docs/wire-tcp.md";
  item.since = 2;
  item.bytes = to_bytes(made);
  item.read = [made](ByteView given) -> std::string {
    return std::ranges::equal(given, made) ? "" : "is not what is derived now";
  };
  return item;
}

}  // namespace

std::vector<Item> tcp_items() {
  std::vector<Item> items;
  items.push_back(proof("proof.acceptor", Side::kAcceptor));
  items.push_back(proof("proof.connector", Side::kConnector));
  items.push_back(item_of("hello", hello(), decode_hello));
  items.push_back(
      item_of("welcome", Welcome{Errc::kOk, 1, 0x4142434445464748, {0x100000, 0x40000, 8192}}, decode_welcome));
  items.push_back(item_of("welcome.refused", Welcome{Errc::kVersionMismatch, 1, 0, {}}, decode_welcome));
  for (unsigned number = 0; number < 256; ++number) {
    const std::optional<FrameType> type = type_of_number(static_cast<std::uint8_t>(number));
    if (!type) continue;  // this version has no such type
    FrameHeader header;
    header.type = *type;
    header.message_class = number % 2 == 0 ? bmi::MessageClass::kControl : bmi::MessageClass::kBulk;
    header.flags = header.type == FrameType::kClear ? kFlagTooBig : 0;
    header.credit = 0x01020304;
    header.tag = 0x1112131415161718;
    header.length = 0x2122232425262728;
    header.id = 0x3132333435363738;
    items.push_back(item_of(fmt::format("frame.{}", name_of(header.type)), header, decode_frame));
  }
  return items;
}

}  // namespace spate::golden
