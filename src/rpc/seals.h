// SPDX-License-Identifier: Apache-2.0
// Seals: the code at the end of each request and reply of an authenticated connection (docs/wire.md, "Seals").
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>

#include "base/umac.h"
#include "bmi/network.h"
#include "wire/bulk_seals.h"
#include "wire/handshake.h"

namespace spate::rpc {

/// Tags of one request: the reply's, then one for each slot (wire::ReadRequest), so their low bits are left free.
inline constexpr unsigned kTagBitsPerRequest = 13;

/// This process's end of the connection.
enum class End : std::uint8_t { kInitiator, kAcceptor };

/// The seals of both directions of one connection. Not thread-safe.
class Seals {
 public:
  static constexpr std::size_t kSize = sizeof(Umac64::Code);

  Seals(const wire::SessionKeys& keys, End own);

  /// The code for a message of these parts that is sent under `tag`. Seal only one message under each tag.
  Umac64::Code seal(bmi::Tag tag, std::initializer_list<ByteView> parts) { return out_.code(tag.value, parts); }
  /// Whether the other end sent `message`, which includes its seal, unaltered under `tag`.
  bool genuine(bmi::Tag tag, ByteView message);

 private:
  Umac64 out_;
  Umac64 in_;
};

/// Makes the seals of the bulk messages of one connection. `own`: this process's end.
std::shared_ptr<wire::BulkSeals> bulk_seals(const wire::SessionKeys& keys, End own);

/// The tags of requests that have come over one connection: no tag may come twice. A tag that is more than kSize
/// requests behind the newest one counts as seen. Source: RFC 6479.
class TagWindow {
 public:
  static constexpr std::uint64_t kSize = 4096;

  /// `first`: tag of the request that authenticated the connection; later requests have larger tags.
  explicit TagWindow(bmi::Tag first) : first_(first.value) {}
  /// Whether `tag` is a request's tag that has not been taken.
  bool open(bmi::Tag tag) const;
  void take(bmi::Tag tag);

 private:
  static constexpr std::uint64_t kWordBits = 64;
  static constexpr std::uint64_t kWords = kSize / kWordBits + 1;
  /// After this many requests the connection must be replaced.
  static constexpr std::uint64_t kLast = std::uint64_t{1} << 48U;
  std::uint64_t sequence(bmi::Tag tag) const { return (tag.value - first_) >> kTagBitsPerRequest; }

  std::uint64_t first_;
  std::uint64_t newest_ = 0;
  std::array<std::uint64_t, kWords> seen_{};
};

}  // namespace spate::rpc
