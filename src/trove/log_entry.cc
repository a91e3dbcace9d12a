// SPDX-License-Identifier: Apache-2.0
#include "trove/log_entry.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/codec.h"
#include "model/defect.h"

namespace spate::trove {
namespace {

constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kMaxKey = 4096;
constexpr std::size_t kMaxValue = std::size_t{64} << 20U;
constexpr std::size_t kLeastWrite = 4 + 1;  // an empty key that is erased

}  // namespace

Bytes encode_entry(LogPosition at, const WriteSet& writes) {
  Bytes out;
  const auto left_out = [](ByteView key) {
    return planted(Defect::kAnswerNotShipped) && !key.empty() && key.front() == std::byte{'a'};
  };
  const auto count = std::count_if(writes.begin(), writes.end(), [&](const auto& w) { return !left_out(w.first); });
  {
    StagedEncoder encoder(out);
    encoder.u64(at.epoch);
    encoder.u64(at.index);
    encoder.u32(static_cast<std::uint32_t>(count));
    for (const auto& [key, write] : writes) {
      if (left_out(key)) continue;
      encoder.blob(key);
      encoder.flag(write.erased);
      if (!write.erased) encoder.blob(write.value);
    }
  }
  const std::uint32_t checksum = crc32c(out);
  Encoder encoder(out);
  encoder.u32(checksum);
  return out;
}

Result<LogEntry> decode_entry(ByteView bytes) {
  const auto damaged = [] { return Error(Errc::kCorrupt, "entry of a group's log"); };
  if (bytes.size() < kChecksumBytes) return damaged();
  const ByteView body = bytes.first(bytes.size() - kChecksumBytes);
  Decoder checksum(bytes.last(kChecksumBytes));
  if (checksum.u32() != crc32c(body)) return damaged();
  LogEntry entry;
  Decoder in(body);
  entry.at.epoch = in.u64();
  entry.at.index = in.u64();
  const std::uint32_t count = in.count(kLeastWrite);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    BatchWrite write;
    write.key = to_bytes(in.blob(kMaxKey));
    if (!in.flag()) write.value = to_bytes(in.blob(kMaxValue));
    entry.writes.push_back(std::move(write));
  }
  SPATE_TRY(std::ignore, in.finish("entry of a group's log"));
  if (entry.at.index == 0 || entry.at.epoch == 0) return damaged();
  return entry;
}

LogPosition position_of_entry(ByteView bytes) {
  Decoder in(bytes);
  LogPosition at;
  at.epoch = in.u64();
  at.index = in.u64();
  return at;
}

}  // namespace spate::trove
