// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/access.h"

#include <cerrno>
#include <climits>
#include <span>
#include <vector>

namespace spate::mpiio {
namespace {

/// Memory in pieces is packed into a buffer of this size, one part after the other.
constexpr std::uint64_t kPackBytes = 8U << 20U;
/// Pieces of memory of at least this size are passed as they are, because a copy costs more than a piece. Guess.
constexpr std::uint64_t kLargeMemoryPiece = 4096;

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

/// Reads or writes a part of the view's stream. `memory` holds the pieces of its memory.
long transfer_window(const File& file, bool write, Walk::Run stream, std::span<const iovec> memory) {
  const View& view = file.view;
  const Piece& piece = view.flat->pieces().front();
  const auto levels = view.flat->levels();
  const auto first = static_cast<std::uint64_t>(stream.offset);
  const std::uint64_t tile = first / view.flat->size();
  const std::uint64_t skip = first % view.flat->size();
  spate_strided what{};
  what.offset = static_cast<std::uint64_t>(view.displacement + as_signed(tile) * view.flat->extent() + piece.offset);
  what.block_size = piece.size;
  what.level_count = levels.size() + 1;
  what.levels[0] = {(skip + stream.size - 1) / view.flat->size() + 1, static_cast<std::uint64_t>(view.flat->extent())};
  for (std::size_t i = 0; i < levels.size(); ++i)
    what.levels[i + 1] = {levels[i].count, static_cast<std::uint64_t>(levels[i].stride)};
  const int count = static_cast<int>(memory.size());
  return write ? spate_write_window(file.file, &what, skip, stream.size, memory.data(), count)
               : spate_read_window(file.file, &what, skip, stream.size, memory.data(), count);
}

long transfer_list(const File& file, bool write, Walk::Run stream, std::span<const iovec> memory) {
  std::vector<spate_range> ranges;
  Walk walk(*file.view.flat, file.view.displacement, static_cast<std::uint64_t>(stream.offset), stream.size);
  while (const auto run = walk.next()) ranges.push_back({static_cast<std::uint64_t>(run->offset), run->size});
  const int count = static_cast<int>(memory.size());
  return write ? spate_write_list(file.file, ranges.data(), ranges.size(), memory.data(), count)
               : spate_read_list(file.file, ranges.data(), ranges.size(), memory.data(), count);
}

long transfer_part(const File& file, bool write, Walk::Run stream, std::span<const iovec> memory) {
  const Flat& flat = *file.view.flat;
  if (flat.dense()) {
    const off_t offset = file_offset(file.view, static_cast<std::uint64_t>(stream.offset));
    const int count = static_cast<int>(memory.size());
    return write ? spate_pwritev(file.file, memory.data(), count, offset)
                 : spate_preadv(file.file, memory.data(), count, offset);
  }
  // A window's levels do not go back.
  return flat.pieces().size() == 1 && file.view.ascends ? transfer_window(file, write, stream, memory)
                                                        : transfer_list(file, write, stream, memory);
}

/// The pieces of memory for a part of the memory's stream, if they are few and large enough to be passed as they are.
std::optional<std::vector<iovec>> pieces_of(const Memory& memory, std::uint64_t first, std::uint64_t size) {
  std::vector<iovec> pieces;
  Walk walk(*memory.flat, 0, first, size);
  while (const auto run = walk.next()) {
    if (pieces.size() == IOV_MAX) return std::nullopt;
    pieces.push_back({memory.base + run->offset, run->size});
  }
  if (size / pieces.size() < kLargeMemoryPiece) return std::nullopt;
  return pieces;
}

/// Moves a part of an access through a buffer. The part begins `done` bytes after the access's first byte. `stream`:
/// the part of the view's stream that is moved at once.
long transfer_packed(const File& file, bool write, Walk::Run stream, const Memory& memory, std::uint64_t done) {
  if (const auto pieces = pieces_of(memory, done, stream.size)) return transfer_part(file, write, stream, *pieces);
  const std::unique_ptr<char[]> packed(new char[stream.size]);
  if (write) gather(memory, done, stream.size, packed.get());
  const iovec all{packed.get(), stream.size};
  const long moved = transfer_part(file, write, stream, {&all, 1});
  if (!write && moved > 0) scatter(memory, done, static_cast<std::uint64_t>(moved), packed.get());
  return moved;
}

long transfer_now(const File& file, bool write, std::uint64_t first, const Memory& memory) {
  if (char* const whole = memory.whole()) {
    const iovec all{whole, memory.bytes};
    return transfer_part(file, write, {as_signed(first), memory.bytes}, {&all, 1});
  }
  std::uint64_t done = 0;
  while (done < memory.bytes) {
    const std::uint64_t size = std::min(kPackBytes, memory.bytes - done);
    const long moved = transfer_packed(file, write, {as_signed(first + done), size}, memory, done);
    if (moved < 0) return moved;
    done += static_cast<std::uint64_t>(moved);
    if (static_cast<std::uint64_t>(moved) < size) break;
  }
  return as_signed(done);
}

}  // namespace

std::int64_t file_offset(const View& view, std::uint64_t position) {
  const std::uint64_t tile = position / view.flat->size();
  return view.displacement + as_signed(tile) * view.flat->extent() + view.flat->offset_at(position % view.flat->size());
}

bool in_reach(const View& view, std::uint64_t position) {
  std::int64_t at = 0;
  if (__builtin_mul_overflow(position / view.flat->size(), view.flat->extent(), &at)) return false;
  if (__builtin_add_overflow(at, view.displacement, &at)) return false;
  if (__builtin_add_overflow(at, view.flat->offset_at(position % view.flat->size()), &at)) return false;
  return at < INT64_MAX;
}

bool in_order(const View& view, std::uint64_t first, std::uint64_t bytes) {
  const std::uint64_t size = view.flat->size();
  return view.ascends && (view.apart || first / size == (first + bytes - 1) / size);
}

std::optional<Flat::TrueExtent> range_of(const View& view, std::uint64_t first, std::uint64_t bytes) {
  const std::uint64_t last = first + bytes - 1;
  if (in_order(view, first, bytes)) {
    if (!in_reach(view, last)) return std::nullopt;
    return Flat::TrueExtent{file_offset(view, first), file_offset(view, last) + 1};
  }
  const std::uint64_t size = view.flat->size();
  std::int64_t begin = 0;
  std::int64_t end = 0;
  if (__builtin_mul_overflow(last / size, view.flat->extent(), &end) ||
      __builtin_add_overflow(end, view.displacement, &end) || __builtin_add_overflow(end, view.true_extent.end, &end))
    return std::nullopt;
  begin = as_signed(first / size) * view.flat->extent() + view.displacement + view.true_extent.begin;
  return Flat::TrueExtent{begin, end};
}

long transfer(File& file, bool write, std::uint64_t first, const Memory& memory) {
  if (memory.bytes == 0) return 0;
  if (const long opened = open_own(file); opened < 0) return opened;
  if (!file.atomic) return transfer_now(file, write, first, memory);
  const std::lock_guard turn(file.atomic_turn);
  const auto range = range_of(file.view, first, memory.bytes);
  if (!range) return -EINVAL;
  const RangeLock lock(file.file, write, range->begin, range->end);
  return lock.outcome() < 0 ? lock.outcome() : transfer_now(file, write, first, memory);
}

RangeLock::RangeLock(spate_file* file, bool exclusive, std::int64_t begin, std::int64_t end) : file_(file) {
  range_.l_type = static_cast<short>(exclusive ? F_WRLCK : F_RDLCK);
  range_.l_whence = SEEK_SET;
  range_.l_start = begin;
  range_.l_len = end - begin;
  outcome_ = spate_lock(file_, F_OFD_SETLKW, &range_);
}

RangeLock::~RangeLock() {
  if (outcome_ < 0) return;
  range_.l_type = F_UNLCK;
  spate_lock(file_, F_OFD_SETLK, &range_);
}

}  // namespace spate::mpiio
