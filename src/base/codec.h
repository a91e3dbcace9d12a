// SPDX-License-Identifier: Apache-2.0
// Encoder and Decoder: explicit little-endian coding of messages and records (docs/wire.md, "Conventions").
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace spate {

/// Appends to a byte vector that the caller owns and that outlives the encoder.
class Encoder {
 public:
  explicit Encoder(Bytes& out) : out_(out) {}

  void u8(std::uint8_t v) { put(v, 1); }
  void u16(std::uint16_t v) { put(v, 2); }
  void u32(std::uint32_t v) { put(v, 4); }
  void u64(std::uint64_t v) { put(v, 8); }
  void i64(std::int64_t v) { put(static_cast<std::uint64_t>(v), 8); }
  void flag(bool v) { u8(v ? 1 : 0); }
  /// Bytes as they are, without a length.
  void raw(ByteView bytes);
  /// u32 length, then the bytes.
  void blob(ByteView bytes);
  void text(std::string_view s) { blob(as_bytes(s)); }

  std::size_t size() const { return out_.size() + held(); }
  /// Overwrites four bytes that were written before, at `position`: for a length that is known only afterwards.
  void patch_u32(std::size_t position, std::uint32_t v);

 protected:
  /// Collects what is appended in `window` from now on, as long as it fits, until flush(). `window` outlives the
  /// encoder.
  void hold_back_in(MutableByteView window) {
    at_ = window_ = window.data();
    end_ = window_ + window.size();
  }
  void flush();

 private:
  std::size_t held() const { return static_cast<std::size_t>(at_ - window_); }
  bool fits(std::size_t bytes) const { return static_cast<std::size_t>(end_ - at_) >= bytes; }
  void put(std::uint64_t v, unsigned bytes) {
    std::byte raw_bytes[8];
    for (unsigned i = 0; i < bytes; ++i) raw_bytes[i] = static_cast<std::byte>(v >> (8 * i));
    if (!fits(bytes)) return raw({raw_bytes, bytes});
    std::memcpy(at_, raw_bytes, bytes);
    at_ += bytes;
  }

  Bytes& out_;
  std::byte* window_ = nullptr;  // null: nothing is held back
  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
};

/// An Encoder for many small values. It collects them in a small buffer first, since growing the vector by each of them
/// would cost more than everything else. The vector holds all values only after flush() or the destructor.
class StagedEncoder final : public Encoder {
 public:
  explicit StagedEncoder(Bytes& out) : Encoder(out) { hold_back_in(stage_); }
  StagedEncoder(const StagedEncoder&) = delete;
  StagedEncoder& operator=(const StagedEncoder&) = delete;
  ~StagedEncoder() { flush(); }

 private:
  std::array<std::byte, 512> stage_;  // most messages and records
};

/// Reads from foreign bytes that outlive the decoder. Sticky failure: after the first short or invalid read every
/// further read yields zeros and ok() is false, so that decoders are straight lines checked once at the end.
class Decoder {
 public:
  explicit Decoder(ByteView in) : in_(in) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(get(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(get(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(get(4)); }
  std::uint64_t u64() { return get(8); }
  std::int64_t i64() { return static_cast<std::int64_t>(get(8)); }
  /// 0 or 1; any other byte fails.
  bool flag();
  /// The next `size` bytes, borrowed from the input.
  ByteView raw(std::size_t size);
  /// A u32 length of at most `max`, then that many bytes, borrowed from the input.
  ByteView blob(std::size_t max);
  std::string text(std::size_t max) { return std::string(as_text(blob(max))); }
  /// A count of things of at least `min_bytes_each` (>= 1) still to come; fails when the rest cannot hold them,
  /// so that a lying count never makes the caller allocate.
  std::uint32_t count(std::size_t min_bytes_each);

  std::size_t remaining() const { return in_.size() - at_; }
  bool ok() const { return ok_; }
  void fail() { ok_ = false; }
  /// kCorrupt with `what` unless every read was good and nothing is left over.
  Result<void> finish(std::string_view what) const;

 private:
  std::uint64_t get(std::size_t bytes) {
    if (!ok_ || remaining() < bytes) {
      ok_ = false;
      return 0;
    }
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < bytes; ++i) v |= static_cast<std::uint64_t>(in_[at_ + i]) << (8 * i);
    at_ += bytes;
    return v;
  }
  ByteView in_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace spate
