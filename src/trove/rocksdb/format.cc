// SPDX-License-Identifier: Apache-2.0
#include "trove/rocksdb/format.h"

#include "base/codec.h"

namespace spate::trove {
namespace {

constexpr std::string_view kFormatName = "spate keyval";
constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kMaxFormatName = 64;

}  // namespace

Bytes format_record() {
  Bytes record;
  Encoder encoder(record);
  encoder.text(kFormatName);
  encoder.u32(kFormatVersion);
  return record;
}

Result<void> check_format_record(ByteView record, const std::string& folder) {
  const std::string store = "keyval store " + folder;
  Decoder decoder(record);
  const std::string format_name = decoder.text(kMaxFormatName);
  const std::uint32_t version = decoder.u32();
  if (!decoder.ok() || format_name != kFormatName || version == 0) {
    return Error(Errc::kCorrupt, store + ": its format record is damaged; restore it from a backup");
  }
  // The rest of a newer version's record is not checked.
  if (version > kFormatVersion) {
    return Error(Errc::kFormatTooNew, store + ": it has format " + std::to_string(version) +
                                          ", this spated knows up to " + std::to_string(kFormatVersion) +
                                          "; use a newer spated");
  }
  return decoder.finish(store + ": format record");
}

}  // namespace spate::trove
