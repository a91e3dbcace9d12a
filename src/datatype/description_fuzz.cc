// SPDX-License-Identifier: Apache-2.0
// Fuzzer: gives any bytes to the decoder of descriptions, and walks over accepted ones for a bounded number of steps.
// The first four bytes choose the distribution, and the rest is a description.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "datatype/measure.h"
#include "dist/simple_stripe.h"

namespace spate::datatype {
namespace {

constexpr std::uint64_t kMaxSteps = 2000;

void check_round_trip(const Description& description) {
  Bytes bytes;
  Encoder out(bytes);
  encode(out, description);
  Decoder in(bytes);
  SPATE_CHECK(decode_description(in) == description);
  SPATE_CHECK(in.finish("description"));
}

void check_cursor(const Description& description) {
  std::uint64_t stream = 0;
  std::uint64_t steps = 0;
  Cursor cursor(description);
  for (; !cursor.done() && steps < kMaxSteps; cursor.next(), ++steps) {
    const Piece& piece = cursor.piece();
    SPATE_CHECK(piece.size >= 1 && piece.stream == stream);
    SPATE_CHECK(piece.offset <= kMaxFileBytes && piece.size <= kMaxFileBytes - piece.offset);
    stream += piece.size;
  }
  SPATE_CHECK(stream <= description.total_bytes());
  SPATE_CHECK(!cursor.done() || stream == description.total_bytes());
  if (description.empty()) return;
  cursor.seek(description.total_bytes() - 1);
  SPATE_CHECK(!cursor.done() && cursor.piece().size == 1);
}

void check_slots(const Description& description, const Distribution& distribution) {
  std::uint64_t sum = 0;
  bool complete = true;
  for (std::uint32_t slot = 0; slot < distribution.slot_count(); ++slot) {
    SlotCursor cursor(description, distribution, slot);
    std::vector<Extent> extents;
    std::vector<SlotPiece> pieces;
    for (int batch = 0; batch < 4 && !cursor.done(); ++batch) {
      SlotCursor copy = cursor;
      const std::uint64_t bytes = cursor.next_extents({1ULL << 20U, 64}, extents);
      SPATE_CHECK(extents.size() <= 64 && bytes <= 1ULL << 20U);
      if (bytes > 0) copy.next_batch({bytes, 64}, pieces);
      SPATE_CHECK(bytes == 0 || (!pieces.empty() && pieces.front().physical == extents.front().offset));
    }
    sum += cursor.slot_offset();
    complete = complete && cursor.done();
  }
  SPATE_CHECK(sum <= description.total_bytes());
  SPATE_CHECK(!complete || sum == description.total_bytes());
}

void check_measures(const Description& description, const Distribution& distribution) {
  if (description.blocks() > kMaxSteps) return;
  const std::uint64_t end = file_end(description);
  SPATE_CHECK(valid_bytes(description, end) == description.total_bytes());
  SPATE_CHECK(description.empty() || valid_bytes(description, end - 1) < description.total_bytes());
  std::uint64_t sum = 0;
  for (const std::uint32_t slot : slots_touched(description, distribution)) {
    const std::uint64_t bytes = bytes_for_slot(description, distribution, slot);
    SPATE_CHECK(bytes >= 1);
    SPATE_CHECK(present_bytes(description, distribution, slot, distribution.physical_size(slot, end)) == bytes);
    sum += bytes;
  }
  SPATE_CHECK(sum == description.total_bytes());
  if (!check_disjoint(description)) SPATE_CHECK(!description.ordered());
}

void run(ByteView input) {
  Decoder in(input);
  const std::size_t slots = 1 + in.u8() % 8;
  const std::uint64_t strip_bytes = std::uint64_t{in.u8()} * 4096 + in.u16() + 1;
  const Description description = decode_description(in);
  if (!in.ok()) return;
  const SimpleStripe distribution(slots, strip_bytes);
  check_round_trip(description);
  check_cursor(description);
  check_slots(description, distribution);
  check_measures(description, distribution);
}

}  // namespace
}  // namespace spate::datatype

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spate::datatype::run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
