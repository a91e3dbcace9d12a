// SPDX-License-Identifier: Apache-2.0
// The wire form of a Description: docs/wire.md, "Description".
#include <utility>
#include <vector>

#include "datatype/description.h"

namespace spate::datatype {
namespace {

constexpr std::size_t kPairBytes = 16;

std::vector<Extent> decode_pieces(Decoder& in) {
  const std::uint32_t count = in.count(kPairBytes);
  if (count > kMaxListPieces) in.fail();
  std::vector<Extent> pieces;
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    const std::uint64_t offset = in.u64();
    pieces.push_back({offset, in.u64()});
  }
  return pieces;
}

Result<Description> decode_strided(Decoder& in) {
  const std::uint64_t offset = in.u64();
  const std::uint64_t block_bytes = in.u64();
  Extent window;
  window.offset = in.u64();
  window.size = in.u64();
  const std::uint8_t count = in.u8();
  std::vector<Level> levels;  // the builder refuses too many
  for (std::uint8_t k = 0; in.ok() && k < count; ++k) {
    const std::uint64_t repetitions = in.u64();
    levels.push_back({repetitions, in.u64()});
  }
  return Description::strided_window(offset, block_bytes, levels, window);
}

Result<Description> decode_body(Decoder& in) {
  switch (static_cast<DescriptionKind>(in.u8())) {
    case DescriptionKind::kContiguous: {
      const std::uint64_t offset = in.u64();
      return Description::contiguous(offset, in.u64());
    }
    case DescriptionKind::kList: {
      const std::vector<Extent> pieces = decode_pieces(in);
      return Description::list(pieces);
    }
    case DescriptionKind::kStrided: return decode_strided(in);
  }
  return Errc::kCorrupt;
}

}  // namespace

void encode(Encoder& out, const Description& description) {
  out.u8(static_cast<std::uint8_t>(description.kind()));
  switch (description.kind()) {
    case DescriptionKind::kContiguous:
      out.u64(description.offset());
      out.u64(description.total_bytes());
      return;
    case DescriptionKind::kList:
      out.u32(static_cast<std::uint32_t>(description.pieces().size()));
      for (const Extent& piece : description.pieces()) {
        out.u64(piece.offset);
        out.u64(piece.size);
      }
      return;
    case DescriptionKind::kStrided:
      out.u64(description.offset());
      out.u64(description.block_bytes());
      out.u64(description.first());
      out.u64(description.total_bytes());
      out.u8(static_cast<std::uint8_t>(description.levels().size()));
      for (const Level& level : description.levels()) {
        out.u64(level.count);
        out.u64(level.stride);
      }
      return;
  }
}

Description decode_description(Decoder& in) {
  Result<Description> decoded = decode_body(in);
  if (!decoded || decoded->blocks() > kMaxRequestBlocks) in.fail();
  return in.ok() ? *std::move(decoded) : Description();
}

}  // namespace spate::datatype
