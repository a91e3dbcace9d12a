// SPDX-License-Identifier: Apache-2.0
// Writer and Reader: a message has one `fields` function, which describes it for both directions (docs/wire.md,
// "Conventions").
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/codec.h"
#include "datatype/description.h"
#include "model/attributes.h"
#include "model/capability.h"
#include "model/cluster_map.h"
#include "model/data_group.h"
#include "model/layout.h"

namespace spate::wire {

/// The longest text in a message, bytes (names and paths have their own smaller limits, checked by the server).
constexpr std::size_t kMaxText = 8192;
/// The longest opaque value in a message, bytes: it fits the largest message.
constexpr std::size_t kMaxBlob = 1U << 20U;

template <typename M, typename A>
concept HasFields = requires(M& m, A& a) { m.fields(a); };

/// Appends values to `out`. `writer(a, b, c)` writes them in order. `out` is complete when the writer is destroyed.
class Writer {
 public:
  explicit Writer(Bytes& out) : out_(out) {}

  template <typename... T>
  void operator()(const T&... values) {
    (write(values), ...);
  }

 private:
  void write(std::uint8_t v) { out_.u8(v); }
  void write(std::uint16_t v) { out_.u16(v); }
  void write(std::uint32_t v) { out_.u32(v); }
  void write(std::uint64_t v) { out_.u64(v); }
  void write(std::int64_t v) { out_.i64(v); }
  void write(bool v) { out_.flag(v); }
  void write(const std::string& v) { out_.text(v); }
  void write(const Bytes& v) { out_.blob(v); }
  void write(WallTime v) { out_.i64(v.ns); }
  void write(Errc v) { out_.u16(static_cast<std::uint16_t>(v)); }
  void write(const Layout& v) { encode(out_, v); }
  void write(const DistributionSpec& v) { encode(out_, v); }
  void write(const ClusterMap& v) { encode(out_, v); }
  void write(const DataGroup& v) { encode(out_, v); }
  void write(const datatype::Description& v) { encode(out_, v); }
  template <std::size_t N>
  void write(const std::array<std::byte, N>& v) {
    out_.raw(v);
  }
  template <typename Tag, typename Rep>
  void write(StrongId<Tag, Rep> v) {
    write(v.value);
  }
  template <typename E>
    requires std::is_enum_v<E>
  void write(E v) {
    write(static_cast<std::underlying_type_t<E>>(v));
  }
  template <typename T>
  void write(const std::vector<T>& v) {
    out_.u32(static_cast<std::uint32_t>(v.size()));
    for (const T& item : v) write(item);
  }
  template <typename T>
  void write(const std::optional<T>& v) {
    out_.flag(v.has_value());
    if (v) write(*v);
  }
  template <typename T>
    requires HasFields<T, Writer>
  void write(const T& v) {
    const_cast<T&>(v).fields(*this);  // fields() only reads when given a Writer
  }
  void write(const Attributes& v);
  void write(const Credential& v);
  void write(const Capability& v);
  void write(const SessionTicket& v);

  StagedEncoder out_;
};

/// Fills values from foreign bytes. Failure is sticky as in Decoder. It checks every length and count against the bytes
/// that are left.
class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}

  template <typename... T>
  void operator()(T&... values) {
    (read(values), ...);
  }
  Decoder& decoder() { return in_; }

 private:
  void read(std::uint8_t& v) { v = in_.u8(); }
  void read(std::uint16_t& v) { v = in_.u16(); }
  void read(std::uint32_t& v) { v = in_.u32(); }
  void read(std::uint64_t& v) { v = in_.u64(); }
  void read(std::int64_t& v) { v = in_.i64(); }
  void read(bool& v) { v = in_.flag(); }
  void read(std::string& v) { v = in_.text(kMaxText); }
  void read(Bytes& v) { v = to_bytes(in_.blob(kMaxBlob)); }
  void read(WallTime& v) { v.ns = in_.i64(); }
  void read(Errc& v) { v = errc_from_wire(in_.u16()); }
  void read(Layout& v) { v = decode_layout(in_); }
  void read(DistributionSpec& v) { v = decode_distribution(in_); }
  void read(ClusterMap& v) { v = decode_cluster_map(in_); }
  void read(DataGroup& v) { v = decode_data_group(in_); }
  void read(datatype::Description& v) { v = datatype::decode_description(in_); }
  template <std::size_t N>
  void read(std::array<std::byte, N>& v) {
    const ByteView bytes = in_.raw(N);
    if (bytes.size() == N) std::copy(bytes.begin(), bytes.end(), v.begin());
  }
  template <typename Tag, typename Rep>
  void read(StrongId<Tag, Rep>& v) {
    read(v.value);
  }
  /// Accepts unknown values of an enumeration: the code that uses the value refuses them. Flags have masks of their
  /// own.
  template <typename E>
    requires std::is_enum_v<E>
  void read(E& v) {
    std::underlying_type_t<E> raw{};
    read(raw);
    v = static_cast<E>(raw);
  }
  template <typename T>
  void read(std::vector<T>& v) {
    const std::uint32_t n = in_.count(1);
    v.clear();
    for (std::uint32_t i = 0; i < n && in_.ok(); ++i) {
      v.emplace_back();
      read(v.back());
    }
  }
  template <typename T>
  void read(std::optional<T>& v) {
    v.reset();
    if (in_.flag()) read(v.emplace());
  }
  template <typename T>
    requires HasFields<T, Reader>
  void read(T& v) {
    v.fields(*this);
  }
  void read(Attributes& v);
  void read(Credential& v);
  void read(Capability& v);
  void read(SessionTicket& v);

  Decoder in_;
};

/// Appends the bytes of one message body to `out`.
template <typename M>
void encode_body(const M& message, Bytes& out) {
  Writer writer(out);
  writer(message);
}

/// Decodes the message in `bytes`. kCorrupt: they are too short, too long or out of range.
template <typename M>
Result<M> decode_body(ByteView bytes) {
  M message;
  Reader reader(bytes);
  reader(message);
  SPATE_TRY(std::ignore, reader.decoder().finish(M::kName));
  return message;
}

/// Decodes a message of version 1 and the part that version 2 adds behind it. kCorrupt as above.
template <typename M, typename Behind>
Result<std::pair<M, Behind>> decode_body_and(ByteView bytes) {
  std::pair<M, Behind> both;
  Reader reader(bytes);
  reader(both.first, both.second);
  SPATE_TRY(std::ignore, reader.decoder().finish(Behind::kName));
  return both;
}

}  // namespace spate::wire
