// SPDX-License-Identifier: Apache-2.0
#include "client/session/gather_memory.h"

#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/printable.h"
#include "log/fields.h"

namespace spate::client {
namespace {

constexpr std::string_view kGatherName = "memory for gathered writes";
constexpr MemoryMark kGatherMark{0x7265687461'475053, 3};
/// The header and all pieces lie in front of the bytes.
constexpr std::size_t kFrontBytes = 65536;

std::size_t bytes_of(std::size_t pieces) { return kFrontBytes + pieces * GatherMemory::kPieceBytes; }

}  // namespace

struct GatherMemory::Header {
  MemoryMark mark;
  std::uint64_t pieces = 0;
  std::uint64_t lost_requests = 0;
  std::uint64_t lost_bytes = 0;
};

Result<std::unique_ptr<GatherMemory>> GatherMemory::open(int fd, std::size_t pieces) {
  static_assert(sizeof(Header) + kMostPieces * sizeof(Piece) <= kFrontBytes);
  SPATE_CHECK(pieces <= kMostPieces);
  SPATE_TRY(auto memory, InheritedMemory::open(fd, bytes_of(pieces), kFrontBytes, kGatherName));
  auto& header = *reinterpret_cast<Header*>(memory.data());
  if (memory.mark().magic == 0) {
    header.pieces = (memory.size() - kFrontBytes) / kPieceBytes;
    memory.set_mark(kGatherMark);
  }
  const bool known =
      memory.mark() == kGatherMark && header.pieces <= kMostPieces && memory.size() == bytes_of(header.pieces);
  if (!known) return InheritedMemory::of_another_version(kGatherName);
  return std::unique_ptr<GatherMemory>(new GatherMemory(std::move(memory)));
}

GatherMemory::GatherMemory(InheritedMemory memory)
    : memory_(std::move(memory)),
      header_(*reinterpret_cast<Header*>(memory_.data())),
      pieces_(reinterpret_cast<Piece*>(memory_.data() + sizeof(Header))),
      count_(header_.pieces) {
  for (std::size_t i = count_; i > 0; --i) {
    Piece& piece = pieces_[i - 1];
    if (piece.in_use == 0) {
      free_.push_back(&piece);
    } else {
      inherited_.push_back(&piece);
    }
  }
}

std::byte* GatherMemory::data_of(const Piece& piece) const {
  return memory_.data() + kFrontBytes + static_cast<std::size_t>(&piece - pieces_) * kPieceBytes;
}

GatherMemory::Piece* GatherMemory::take(const Piece& like, std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  Piece* const piece = free_.back();
  free_.pop_back();
  *piece = like;
  piece->in_use = 0;
  piece->size = 0;
  if (name.size() > kNameBytes) name.remove_prefix(name.size() - kNameBytes);
  piece->name = {};
  name.copy(piece->name.data(), name.size());
  std::atomic_ref(piece->in_use).store(1, std::memory_order_release);
  return piece;
}

void GatherMemory::add(Piece& piece, ByteView bytes, WallTime now) {
  SPATE_CHECK(piece.size + bytes.size() <= kPieceBytes);
  std::memcpy(data_of(piece) + piece.size, bytes.data(), bytes.size());
  piece.written = now;
  std::atomic_ref(piece.size).store(piece.size + bytes.size(), std::memory_order_release);
}

ByteView GatherMemory::bytes(const Piece& piece) const {
  return {data_of(piece), static_cast<std::size_t>(piece.size)};
}

void GatherMemory::give_back(Piece& piece) {
  const std::lock_guard lock(mutex_);
  std::atomic_ref(piece.in_use).store(0, std::memory_order_release);
  free_.push_back(&piece);
}

std::string GatherMemory::text(const Piece& piece) {
  std::string text = "inode=" + std::to_string(piece.handle.value) + " offset=" + std::to_string(piece.offset) +
                     " bytes=" + std::to_string(piece.size);
  const std::string_view name(piece.name.data(), ::strnlen(piece.name.data(), kNameBytes));
  return name.empty() ? text : escape_controls(fmt::format("path={} ", log::Quoted{name})) + text;
}

void GatherMemory::note_loss(const Piece& piece) {
  std::atomic_ref(header_.lost_requests).fetch_add(1, std::memory_order_relaxed);
  std::atomic_ref(header_.lost_bytes).fetch_add(piece.size, std::memory_order_relaxed);
}

GatherMemory::Losses GatherMemory::losses() const {
  return {std::atomic_ref(header_.lost_requests).load(std::memory_order_relaxed),
          std::atomic_ref(header_.lost_bytes).load(std::memory_order_relaxed)};
}

std::size_t GatherMemory::used() const {
  const std::lock_guard lock(mutex_);
  return count_ - free_.size();
}

}  // namespace spate::client
