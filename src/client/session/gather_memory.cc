// SPDX-License-Identifier: Apache-2.0
#include "client/session/gather_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/printable.h"
#include "log/fields.h"

namespace spate::client {
namespace {

constexpr std::uint64_t kGatherMagic = 0x7265687461'475053;
constexpr std::uint64_t kGatherVersion = 2;
/// The header and all pieces lie in front of the bytes.
constexpr std::size_t kFrontBytes = 65536;

std::size_t bytes_of(std::size_t pieces) { return kFrontBytes + pieces * GatherMemory::kPieceBytes; }

/// All pages of the memory, now: a write into memory that cannot be had would kill the process.
Result<void> make_pages(int fd, std::size_t size) {
  const int failed = ::posix_fallocate(fd, 0, static_cast<off_t>(size));
  if (failed != 0) return errno_error(failed, "memory for gathered writes");
  return {};
}

}  // namespace

struct GatherMemory::Header {
  std::uint64_t magic = 0;
  std::uint64_t version = 0;
  std::uint64_t pieces = 0;
  std::uint64_t lost_requests = 0;
  std::uint64_t lost_bytes = 0;
};

/// The pages for `pieces` pieces, unless an earlier process has made them. Returns the size of all.
Result<std::size_t> GatherMemory::prepare(int fd, std::size_t pieces) {
  if (fd < 0) return bytes_of(pieces);
  struct stat state{};
  if (::fstat(fd, &state) != 0) return errno_error(errno, "memory for gathered writes");
  if (state.st_size != 0) return static_cast<std::size_t>(state.st_size);
  SPATE_TRY(std::ignore, make_pages(fd, bytes_of(pieces)));
  std::ignore = ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);  // not for memory that allows no seals
  return bytes_of(pieces);
}

Result<std::unique_ptr<GatherMemory>> GatherMemory::open(int fd, std::size_t pieces) {
  static_assert(sizeof(Header) + kMostPieces * sizeof(Piece) <= kFrontBytes);
  SPATE_CHECK(pieces <= kMostPieces);
  SPATE_TRY(const std::size_t size, prepare(fd, pieces));
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return errno_error(errno, "map the memory for gathered writes");
  std::ignore = ::madvise(memory, size, MADV_DONTDUMP);
  auto& header = *static_cast<Header*>(memory);
  if (size >= kFrontBytes && header.magic == 0) {
    header.version = kGatherVersion;
    header.pieces = (size - kFrontBytes) / kPieceBytes;
    std::atomic_ref(header.magic).store(kGatherMagic, std::memory_order_release);
  }
  const bool known = size >= kFrontBytes && header.magic == kGatherMagic && header.version == kGatherVersion &&
                     header.pieces <= kMostPieces && size == bytes_of(header.pieces);
  if (!known) {
    ::munmap(memory, size);
    return Error(Errc::kVersionMismatch, "the memory for gathered writes is of another version of Spate");
  }
  return std::unique_ptr<GatherMemory>(new GatherMemory(static_cast<std::byte*>(memory), header.pieces));
}

GatherMemory::GatherMemory(std::byte* memory, std::size_t count)
    : memory_(memory),
      header_(*reinterpret_cast<Header*>(memory)),
      pieces_(reinterpret_cast<Piece*>(memory + sizeof(Header))),
      count_(count) {
  for (std::size_t i = count_; i > 0; --i) {
    Piece& piece = pieces_[i - 1];
    if (piece.in_use == 0) {
      free_.push_back(&piece);
    } else {
      inherited_.push_back(&piece);
    }
  }
}

GatherMemory::~GatherMemory() { ::munmap(memory_, bytes_of(count_)); }

std::byte* GatherMemory::data_of(const Piece& piece) const {
  return memory_ + kFrontBytes + static_cast<std::size_t>(&piece - pieces_) * kPieceBytes;
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
