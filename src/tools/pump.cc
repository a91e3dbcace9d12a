// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "job/event.h"
#include "job/gate.h"
#include "tools/copy.h"

namespace spate::tools {
namespace {

/// Size of the read at the file's probable end, whose data comes in one reply.
constexpr std::size_t kLastPiece = 64U << 10U;
/// Size of the other requests. Local files are read and written in such pieces, too; the network waits meanwhile, so
/// they should not be much larger.
constexpr std::size_t kPiece = kAtOnceBytes;

/// Requests in flight: for each server, one that moves data and one that waits.
std::size_t pieces_at_once(const client::File& file) {
  return std::clamp<std::size_t>(2 * file.layout().slots.size(), 4, 32);
}

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

/// Whether all bytes are zero: the first is zero, and the memory equals itself shifted by one. memcmp is faster than
/// any loop here.
bool all_zero(ByteView memory) {
  return memory.empty() ||
         (memory.front() == std::byte{0} && std::memcmp(memory.data(), memory.data() + 1, memory.size() - 1) == 0);
}

/// Writes the piece, but seeks over its blocks of zeros. Yields the end of its last data,
/// counted from the piece's begin.
Result<std::size_t> write_sparse(int fd, ByteView piece) {
  constexpr std::size_t kSparseBlock = 64U << 10U;
  std::size_t done = 0;
  std::size_t data_end = 0;
  while (!piece.empty()) {
    std::size_t run = 0;
    const bool hole = all_zero(piece.first(std::min(kSparseBlock, piece.size())));
    while (run < piece.size() && all_zero(piece.subspan(run, std::min(kSparseBlock, piece.size() - run))) == hole) {
      run += std::min(kSparseBlock, piece.size() - run);
    }
    if (!hole) {
      SPATE_TRY(std::ignore, write_fully(fd, piece.first(run)));
    } else if (::lseek(fd, static_cast<off_t>(run), SEEK_CUR) < 0) {
      return errno_error(errno, "seek");
    }
    piece = piece.subspan(run);
    done += run;
    if (!hole) data_end = done;
  }
  return data_end;
}

/// The local source or destination of a file's data.
struct LocalEnd {
  int fd = -1;
  bool sparse = false;
  std::uint64_t data_end = 0;  // of a destination: where the data that was written ends; a hole may follow
};

Result<void> write_piece(LocalEnd& to, std::uint64_t offset, ByteView data) {
  if (!to.sparse) return write_fully(to.fd, data);
  SPATE_TRY(const std::size_t data_end, write_sparse(to.fd, data));
  if (data_end > 0) to.data_end = offset + data_end;
  return {};
}

/// A buffer and the request that uses it.
struct Piece {
  explicit Piece(job::Executor& executor, std::size_t size) : buffer(size, Buffer::kPageAlignment), done(executor) {}
  Buffer buffer;
  std::uint64_t offset = 0;
  std::size_t size = 0;  // bytes requested
  job::Event done;
  Result<std::uint64_t> moved = std::uint64_t{0};  // result of the request, once done
};

/// The pieces of one file in flight, oldest first, and the buffers of finished ones.
class Pieces {
 public:
  /// `largest`: bytes of the largest piece.
  explicit Pieces(client::File& file, std::size_t largest = kPiece)
      : file_(file), gate_(file.executor()), most_(pieces_at_once(file)), largest_(largest) {}

  bool empty() const { return under_way_.empty(); }
  bool full() const { return under_way_.size() == most_; }
  /// Takes the buffer used last, which is still in the processor's caches.
  std::unique_ptr<Piece> take_buffer() {
    if (spare_.empty()) return std::make_unique<Piece>(file_.executor(), largest_);
    std::unique_ptr<Piece> piece = std::move(spare_.back());
    spare_.pop_back();
    piece->done.reset();
    return piece;
  }
  void give_back(std::unique_ptr<Piece> piece) { spare_.push_back(std::move(piece)); }

  void write(std::unique_ptr<Piece> piece, std::uint64_t offset, std::size_t size) {
    Piece& begun = begin(std::move(piece), offset, size);
    job::spawn(gate_, write_one(begun));
  }
  void read(std::uint64_t offset, std::size_t size) {
    Piece& begun = begin(take_buffer(), offset, size);
    job::spawn(gate_, read_one(begun));
  }
  /// Waits for the oldest request.
  job::Task<std::unique_ptr<Piece>> oldest() {
    std::unique_ptr<Piece> piece = std::move(under_way_.front());
    under_way_.pop_front();
    std::ignore = co_await piece->done.wait();
    co_return piece;
  }
  /// Waits for the remaining requests and ignores their results. Always call it before destruction.
  job::Task<void> abandon() { co_await gate_.close(); }

 private:
  Piece& begin(std::unique_ptr<Piece> piece, std::uint64_t offset, std::size_t size) {
    piece->offset = offset;
    piece->size = size;
    under_way_.push_back(std::move(piece));
    return *under_way_.back();
  }
  job::Task<void> write_one(Piece& piece) {
    auto written = co_await file_.write(piece.offset, std::as_const(piece.buffer).view().first(piece.size));
    piece.moved = written ? Result<std::uint64_t>(piece.size) : Result<std::uint64_t>(std::move(written).error());
    piece.done.set();
  }
  job::Task<void> read_one(Piece& piece) {
    piece.moved = co_await file_.read(piece.offset, piece.buffer.view().first(piece.size));
    piece.done.set();
  }

  client::File& file_;
  job::Gate gate_;
  const std::size_t most_;
  const std::size_t largest_;
  std::deque<std::unique_ptr<Piece>> under_way_;
  std::vector<std::unique_ptr<Piece>> spare_;
};

job::Task<Result<void>> take_written(Pieces& pieces, Progress& progress) {
  std::unique_ptr<Piece> piece = co_await pieces.oldest();
  if (!piece->moved) co_return std::move(piece->moved).error();
  progress.bytes += piece->size;
  pieces.give_back(std::move(piece));
  co_return Result<void>();
}

/// The parts of a local file that hold data, one after the other.
class LocalData {
 public:
  LocalData(int fd, bool sparse) : fd_(fd), sparse_(sparse) {}

  /// How much to read at once, at most kPiece; moves `offset`, and the descriptor, over a hole. 0: no more data
  /// follows.
  Result<std::size_t> next(std::uint64_t& offset) {
    if (!sparse_) return kPiece;
    if (offset >= hole_) {
      const off_t data = ::lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
      if (data < 0 && errno == ENXIO) return std::size_t{0};
      const off_t hole = data < 0 ? -1 : end_of_data(data);
      sparse_ = hole > data;  // otherwise the local file system does not report holes
      if (sparse_) offset = static_cast<std::uint64_t>(data);
      hole_ = static_cast<std::uint64_t>(hole);
      if (::lseek(fd_, static_cast<off_t>(offset), SEEK_SET) < 0) return errno_error(errno, "seek");
      if (!sparse_) return kPiece;
    }
    return static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, hole_ - offset));
  }

 private:
  /// Shorter holes are read and written, since requests cost more than their zeros. Guess.
  static constexpr off_t kLeastHole = 32 << 10;

  off_t end_of_data(off_t data) {
    off_t hole = ::lseek(fd_, data, SEEK_HOLE);
    while (hole > data && hole - data < static_cast<off_t>(kPiece)) {
      const off_t next = ::lseek(fd_, hole, SEEK_DATA);
      if (next < 0 || next - hole >= kLeastHole) break;
      hole = ::lseek(fd_, next, SEEK_HOLE);
    }
    return hole;
  }

  const int fd_;
  bool sparse_;
  std::uint64_t hole_ = 0;  // end of the present run of data
};

job::Task<Result<std::uint64_t>> copy_in(client::File& file, Pieces& pieces, LocalEnd from, Progress& progress) {
  LocalData data(from.fd, from.sparse);
  std::uint64_t offset = 0;
  for (bool end = false; !end;) {
    if (pieces.full()) {
      SPATE_CO_TRY(std::ignore, co_await take_written(pieces, progress));
    }
    SPATE_CO_TRY(const std::size_t size, data.next(offset));
    if (size == 0) break;
    std::unique_ptr<Piece> piece = pieces.take_buffer();
    SPATE_CO_TRY(const std::size_t n, read_fully(from.fd, piece->buffer.view().first(size)));
    end = n < size;
    if (n > 0) pieces.write(std::move(piece), offset, n);
    offset += n;
    co_await file.executor().yield();  // lets the network work between two reads
  }
  while (!pieces.empty()) {
    SPATE_CO_TRY(std::ignore, co_await take_written(pieces, progress));
  }
  co_return offset;
}

/// A hole at the end needs no data: extends the size.
job::Task<Result<std::uint64_t>> extend_over_hole(client::File& file, int fd, std::uint64_t written) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) co_return errno_error(errno, "stat");
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if (size <= written) co_return written;
  SPATE_CO_TRY(std::ignore, co_await file.truncate(size));
  co_return size;
}

/// The parts of a file that need not be read. Asks for them only if the file has fewer blocks than its size needs.
class Holes {
 public:
  Holes(client::File& file, bool wanted) : file_(file) {
    const Attributes& known = file.attributes();
    worth_it_ = wanted && known.size_known && known.allocated_bytes < known.size;
  }
  /// Where the next data may be, at or after `offset`; `offset` itself if that is unknown.
  job::Task<std::uint64_t> skip(std::uint64_t offset) {
    if (!worth_it_) co_return offset;
    const std::uint64_t size = file_.attributes().size;
    while (offset < size) {
      if (!map_ || offset >= known_to_) {
        auto map = co_await file_.data_map(offset, kRangesAtOnce);
        worth_it_ = map.has_value();
        if (!map) break;
        map_.emplace(*std::move(map));
        known_to_ = std::max(map_->known_to(), offset + 1);
      }
      const std::uint64_t data = map_->next_data(offset);
      if (data < known_to_) co_return data / kAlign* kAlign < offset ? offset : data / kAlign* kAlign;
      offset = std::min(known_to_, size);
    }
    co_return offset;
  }

 private:
  static constexpr std::uint32_t kRangesAtOnce = 256;
  static constexpr std::uint64_t kAlign = 4096;
  client::File& file_;
  std::optional<client::DataMap> map_;
  std::uint64_t known_to_ = 0;
  bool worth_it_ = false;
};

/// How much of a file to read.
struct Length {
  std::uint64_t bytes = 0;  // its size when it was opened, if known
  bool certain = false;     // false: a read must find the end, which asks the servers of all strips
};

/// If the size is known, nobody was writing the file. Data appended during the copy is left out.
Length length_of(const client::File& file) {
  const Attributes& known = file.attributes();
  return {known.size_known ? known.size : 0, known.size_known};
}

/// Requests data ahead of the reader. Beyond a certain length, sends one request at a time, until it finds the end.
job::Task<void> read_ahead(Pieces& pieces, Holes& holes, Length length, std::uint64_t& asked) {
  while (!pieces.full()) {
    if (asked < length.bytes) asked = co_await holes.skip(asked);
    if (asked >= length.bytes && (length.certain || !pieces.empty())) break;
    std::size_t size = asked + kLastPiece < length.bytes ? kPiece : kLastPiece;
    if (length.certain) size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, length.bytes - asked));
    pieces.read(asked, size);
    asked += size;
  }
}

job::Task<Result<std::uint64_t>> copy_out(client::File& file, Pieces& pieces, LocalEnd& to, Progress& progress) {
  std::uint64_t asked = 0;
  std::uint64_t done = 0;
  const Length length = length_of(file);
  Holes holes(file, to.sparse);
  for (;;) {
    co_await read_ahead(pieces, holes, length, asked);
    if (pieces.empty()) co_return length.bytes;
    std::unique_ptr<Piece> piece = co_await pieces.oldest();
    if (!piece->moved) co_return std::move(piece->moved).error();
    if (piece->offset > done && ::lseek(to.fd, static_cast<off_t>(piece->offset), SEEK_SET) < 0)
      co_return errno_error(errno, "seek");
    done = piece->offset;
    const auto n = static_cast<std::size_t>(*piece->moved);
    const ByteView data = std::as_const(piece->buffer).view().first(n);
    SPATE_CO_TRY(std::ignore, write_piece(to, done, data));
    done += n;
    progress.bytes += n;
    const bool end = n < piece->size;
    pieces.give_back(std::move(piece));
    if (end) co_return done;
  }
}

}  // namespace

job::Task<Result<std::uint64_t>> pump_in(client::File& file, int fd, bool sparse, Progress& progress) {
  Pieces pieces(file);
  const LocalEnd from{fd, sparse};
  auto copied = co_await copy_in(file, pieces, from, progress);
  co_await pieces.abandon();
  if (copied && sparse) copied = co_await extend_over_hole(file, fd, *copied);
  co_return copied;
}

job::Task<Result<std::uint64_t>> pump_out(client::File& file, int fd, bool sparse, Progress& progress) {
  const Length length = length_of(file);
  Pieces pieces(file, length.certain ? std::clamp<std::size_t>(length.bytes, 1, kPiece) : kPiece);
  LocalEnd to{fd, sparse};
  auto copied = co_await copy_out(file, pieces, to, progress);
  co_await pieces.abandon();
  if (!copied) co_return copied;
  const bool hole_at_end = sparse && to.data_end != *copied;
  if (hole_at_end && ::ftruncate(fd, static_cast<off_t>(*copied)) != 0) co_return errno_error(errno, "truncate");
  co_return copied;
}

}  // namespace spate::tools
