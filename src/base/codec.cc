// SPDX-License-Identifier: Apache-2.0
#include "base/codec.h"

namespace spate {

void Encoder::blob(ByteView bytes) {
  SPATE_CHECK(bytes.size() <= UINT32_MAX);
  u32(static_cast<std::uint32_t>(bytes.size()));
  raw(bytes);
}

void Encoder::flush() {
  if (at_ == window_) return;
  out_.insert(out_.end(), window_, at_);
  at_ = window_;
}

void Encoder::raw(ByteView bytes) {
  if (!fits(bytes.size())) flush();
  if (window_ != nullptr && fits(bytes.size())) {
    if (!bytes.empty()) std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  } else {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
}

void Encoder::patch_u32(std::size_t position, std::uint32_t v) {
  flush();
  SPATE_CHECK(position + 4 <= out_.size());
  for (unsigned i = 0; i < 4; ++i) out_[position + i] = static_cast<std::byte>(v >> (8U * i));
}

bool Decoder::flag() {
  const std::uint8_t v = u8();
  if (v > 1) ok_ = false;
  return ok_ && v == 1;
}

ByteView Decoder::raw(std::size_t size) {
  if (!ok_ || remaining() < size) {
    ok_ = false;
    return {};
  }
  const ByteView view = in_.subspan(at_, size);
  at_ += size;
  return view;
}

ByteView Decoder::blob(std::size_t max) {
  const std::uint32_t size = u32();
  if (size > max) ok_ = false;
  return raw(size);
}

std::uint32_t Decoder::count(std::size_t min_bytes_each) {
  const std::uint32_t n = u32();
  if (!ok_ || n > remaining() / min_bytes_each) {
    ok_ = false;
    return 0;
  }
  return n;
}

Result<void> Decoder::finish(std::string_view what) const {
  if (!ok_) return Error(Errc::kCorrupt, std::string(what) + ": too short or out of range");
  if (remaining() != 0) return Error(Errc::kCorrupt, std::string(what) + ": bytes left over");
  return {};
}

}  // namespace spate
