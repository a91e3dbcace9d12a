// SPDX-License-Identifier: Apache-2.0
// Fuzzer: decodes the io server's records from any bytes. A record that decodes must encode to the same bytes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "server/io/records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  using namespace spate::io;
  const ByteView bytes = std::as_bytes(std::span(data, size));
  const auto same = [bytes](const Bytes& again) {
    SPATE_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  };
  if (const auto record = decode_truncate(bytes)) same(encode(*record));
  if (const auto record = decode_tombstone(bytes)) same(encode(*record));
  if (const auto record = decode_fence(bytes)) same(encode(*record));
  if (const auto record = decode_identity(bytes)) same(encode(*record));
  if (const auto end = decode_tombstone_end_key(bytes)) same(tombstone_end_key(end->until, end->datafile));
  if (const auto record = decode_loss(bytes)) same(encode(*record));
  if (const auto record = decode_redone(bytes)) same(encode(*record));
  if (const auto record = decode_joining(bytes)) same(encode(*record));
  if (const auto record = decode_number_marks(bytes)) same(encode(*record));
  if (const auto client = decode_fence_key(bytes)) same(fence_key(*client));
  return 0;
}
