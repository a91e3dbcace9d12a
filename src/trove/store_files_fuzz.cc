// SPDX-License-Identifier: Apache-2.0
// Fuzzer: the files of a target's folder from any bytes: identity, change records, names. The first byte chooses which.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "trove/change_records.h"
#include "trove/datafile_name.h"
#include "trove/target_folder.h"

namespace spate::trove {
namespace {

void check_identity(ByteView input) {
  const auto identity = decode_identity(input, "/t");
  if (!identity) {
    SPATE_CHECK(identity.code() == Errc::kCorrupt || identity.code() == Errc::kFormatTooNew);
    return;
  }
  const auto again = decode_identity(encode_identity(*identity), "/t");
  SPATE_CHECK(again && *again == *identity);
}

/// Adds the right checksum, which a fuzzer cannot guess.
void check_identity_summed(ByteView input) {
  if (input.size() < 4) return;
  Bytes bytes = to_bytes(input.first(input.size() - 4));
  Encoder(bytes).u32(crc32c(bytes));
  check_identity(bytes);
}

/// Puts `input` behind a good header of 4096 bytes. The first bytes of `input` may change the header.
void check_changes(ByteView input) {
  constexpr std::size_t kHeader = 4096;
  constexpr std::size_t kRecord = 32;
  const std::string boot = "01234567-89ab-cdef-0123-456789abcdef";
  Bytes raw;
  Encoder out(raw);
  out.raw(as_bytes("SpateChg"));
  out.u32(1);
  out.raw(as_bytes(boot));
  raw.resize(kHeader);
  if (!input.empty() && static_cast<std::size_t>(input[0]) < 48)
    raw[static_cast<std::size_t>(input[0])] ^= std::byte{1};
  raw.insert(raw.end(), input.begin(), input.end());
  const LeftOverRecords found = ChangeRecords::parse(raw, boot);
  SPATE_CHECK(found.records.size() <= input.size() / kRecord);
  for (const ChangeRecord& record : found.records) SPATE_CHECK(record.id.handle);
  SPATE_CHECK(ChangeRecords::parse(input, boot).records.size() <= input.size() / kRecord);
}

void check_name(ByteView input) {
  const std::string_view name = as_text(input);
  const auto id = parse_datafile_name(name);
  if (!id) return;
  const std::string path = DatafilePath(*id).c_str();
  SPATE_CHECK(path == hash_folder_name(hash_folder(*id)) + "/" + std::string(name));
}

void run(std::uint8_t kind, ByteView input) {
  switch (kind) {
    case 0: return check_identity(input);
    case 1: return check_identity_summed(input);
    case 2: return check_changes(input);
    case 3: return check_name(input);
    default: return;
  }
}

}  // namespace
}  // namespace spate::trove

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  spate::trove::run(data[0], {reinterpret_cast<const std::byte*>(data) + 1, size - 1});
  return 0;
}
