// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/copy.h"

namespace spate::tools {
namespace {

constexpr std::size_t kPiece = 4U << 20U;

Result<std::size_t> read_fully(int fd, MutableByteView memory) {
  std::size_t done = 0;
  while (done < memory.size()) {
    const ssize_t n = ::read(fd, memory.data() + done, memory.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

Result<void> write_fully(int fd, ByteView memory) {
  while (!memory.empty()) {
    const ssize_t n = ::write(fd, memory.data(), memory.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "write");
    memory = memory.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

bool all_zero(ByteView memory) {
  return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Writes the piece, or moves the descriptor over its blocks of zeros.
Result<void> write_sparse(int fd, ByteView piece) {
  constexpr std::size_t kBlock = 64U * 1024;
  while (!piece.empty()) {
    const ByteView block = piece.first(std::min(kBlock, piece.size()));
    if (all_zero(block)) {
      if (::lseek(fd, static_cast<off_t>(block.size()), SEEK_CUR) < 0) return errno_error(errno, "seek");
    } else {
      SPATE_TRY(std::ignore, write_fully(fd, block));
    }
    piece = piece.subspan(block.size());
  }
  return {};
}

}  // namespace

job::Task<Result<std::uint64_t>> pump_in(client::File& file, int fd, Progress& progress) {
  Buffer buffer;
  std::uint64_t offset = 0;
  for (std::size_t size = 64U * 1024;; size = kPiece) {
    if (buffer.size() < size) buffer = Buffer(size, Buffer::kPageAlignment);
    auto n = read_fully(fd, buffer.view().first(size));
    if (!n) co_return std::move(n).error();
    if (*n > 0) {
      auto written = co_await file.write(offset, std::as_const(buffer).view().first(*n));
      if (!written) co_return std::move(written).error();
      offset += *n;
      progress.bytes += *n;
    }
    if (*n < size) co_return offset;
  }
}

job::Task<Result<std::uint64_t>> pump_out(client::File& file, int fd, bool sparse, Progress& progress) {
  Buffer buffer;
  std::uint64_t offset = 0;
  for (std::size_t size = 64U * 1024;; size = kPiece) {
    if (buffer.size() < size) buffer = Buffer(size, Buffer::kPageAlignment);
    const MutableByteView room = buffer.view().first(size);
    auto n = co_await file.read(offset, room);
    if (!n) co_return std::move(n).error();
    const ByteView piece = room.first(static_cast<std::size_t>(*n));
    auto written = sparse ? write_sparse(fd, piece) : write_fully(fd, piece);
    if (!written) co_return std::move(written).error();
    offset += *n;
    progress.bytes += *n;
    if (*n < size) break;
  }
  if (sparse && ::ftruncate(fd, static_cast<off_t>(offset)) != 0) co_return errno_error(errno, "truncate");
  co_return offset;
}

}  // namespace spate::tools
