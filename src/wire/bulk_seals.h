// SPDX-License-Identifier: Apache-2.0
// BulkSeals: the codes of bulk messages, for connections that protect file data, too (docs/wire.md, "Seals").
#pragma once

#include <cstdint>
#include <span>

#include "base/checksum.h"
#include "base/error.h"
#include "base/umac.h"

namespace spate::wire {

/// Both directions of one connection. Each bulk message begins with a code over the bytes behind it. The code's nonce
/// is the message's tag and its position in the stream of that tag. Not thread-safe.
class BulkSeals {
 public:
  using Key = std::array<std::byte, Umac128::kKeySize>;
  using Code = Umac128::Code;
  static constexpr std::size_t kSize = sizeof(Code);

  /// Keys of the messages that this side sends (`out`) and receives (`in`).
  BulkSeals(const Key& out, const Key& in) : out_(out), in_(in) {}

  /// The seal of the `unit`th message (from 0) under `tag`. Each tag and unit seals one message only.
  Code seal(std::uint64_t tag, std::uint64_t unit, std::span<const ByteView> data) {
    return out_.code(tag, unit, data);
  }
  /// Whether the other end sent these bytes as the `unit`th message under `tag`.
  bool genuine(std::uint64_t tag, std::uint64_t unit, std::span<const ByteView> data, const Code& code) {
    return equal_secret(in_.code(tag, unit, data), code);
  }

 private:
  Umac128 out_;
  Umac128 in_;
};

/// The receiver's error for a message whose seal is not genuine.
inline Error altered_bulk_message() {
  return {Errc::kCorrupt, "file data were altered on the network path, by a fault or an attacker"};
}

}  // namespace spate::wire
