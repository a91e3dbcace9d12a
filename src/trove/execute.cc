// SPDX-License-Identifier: Apache-2.0
#include "trove/execute.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/retried.h"
#include "trove/direct.h"
#include "trove/near_extents.h"
#include "trove/pieces.h"
#include "trove/residency.h"
#include "trove/sparse.h"

namespace spate::trove {
namespace {

/// Most pieces in one system call. Most requests have few, and the array lies on the stack.
constexpr std::size_t kPiecesPerCall = 256;

/// One system call for the pieces of a step. A lone piece goes without a list, which the kernel would copy and check:
/// small pieces that lie far apart are mostly such calls.
ssize_t read_step(int fd, std::span<const iovec> pieces, std::uint64_t offset, int flags) {
  const auto at = static_cast<off_t>(offset);
  if (pieces.size() == 1 && flags == 0)
    return retried([&] { return ::pread(fd, pieces[0].iov_base, pieces[0].iov_len, at); });
  return retried([&] { return ::preadv2(fd, pieces.data(), static_cast<int>(pieces.size()), at, flags); });
}

ssize_t write_step(int fd, std::span<const iovec> pieces, std::uint64_t offset, int flags) {
  const auto at = static_cast<off_t>(offset);
  if (pieces.size() == 1 && flags == 0)
    return retried([&] { return ::pwrite(fd, pieces[0].iov_base, pieces[0].iov_len, at); });
  return retried([&] { return ::pwritev2(fd, pieces.data(), static_cast<int>(pieces.size()), at, flags); });
}

/// Reads until the cursor's limit, the file's end or an error. kTryAgain: with RWF_NOWAIT the next read would block.
Errc read_pieces(int fd, PieceCursor cursor, int flags, std::uint64_t& moved) {
  std::array<iovec, kPiecesPerCall> pieces;
  while (cursor.left() > 0) {
    if (const Span span = span_at(cursor, false); span.pieces > 0) {
      const ssize_t n = read_span(fd, span, cursor, flags);
      if (n < 0) return errno == EOPNOTSUPP ? Errc::kNotSupported : errc_from_errno(errno);
      if (n == 0) return Errc::kOk;
      moved += static_cast<std::uint64_t>(n);
      continue;
    }
    const Step step = cursor.next(pieces);
    const ssize_t n = read_step(fd, std::span(pieces).first(step.pieces), step.offset, flags);
    if (n < 0) return errno == EOPNOTSUPP ? Errc::kNotSupported : errc_from_errno(errno);
    if (n == 0) return Errc::kOk;
    moved += static_cast<std::uint64_t>(n);
    cursor.advance(static_cast<std::uint64_t>(n));
  }
  return Errc::kOk;
}

/// `alone`: no other change of the file is under way.
Errc write_pieces(int fd, PieceCursor cursor, const BytestreamRequest& request, int flags, bool alone,
                  std::uint64_t& moved) {
  std::array<iovec, kPiecesPerCall> pieces;
  while (cursor.left() > 0) {
    if (const Span span = alone ? span_at(cursor, true) : Span(); span.pieces > 0) {
      const ssize_t n = write_span(fd, span, cursor, flags);
      if (n < 0) return errno == EOPNOTSUPP ? Errc::kNotSupported : direct_errc(request, errno);
      if (n == 0) return Errc::kIoError;
      moved += static_cast<std::uint64_t>(n);
      continue;
    }
    const Step step = cursor.next(pieces);
    const ssize_t n = write_step(fd, std::span(pieces).first(step.pieces), step.offset, flags);
    if (n < 0) return errno == EOPNOTSUPP ? Errc::kNotSupported : direct_errc(request, errno);
    if (n == 0) return Errc::kIoError;  // a regular file takes at least one byte or says why not
    moved += static_cast<std::uint64_t>(n);
    cursor.advance(static_cast<std::uint64_t>(n));
  }
  return Errc::kOk;
}

/// Whether the change may read, and write back, the bytes between its extents. If so, it is the only change of the
/// datafile from then on.
bool takes_gaps(LocalDatafile& datafile, const BytestreamRequest& request) {
  return request.may_rewrite_gaps && !request.direct && has_near_extents(request.extents) && datafile.try_be_alone();
}

PieceCursor cursor_at(const BytestreamRequest& request, std::uint64_t begin, std::uint64_t limit) {
  PieceCursor cursor(request.extents, request.memory, limit);
  cursor.advance(std::min(begin, limit));
  return cursor;
}

/// Limits the read by the file's present size. That is also the answer's size unless the file turns out shorter. The
/// counter is taken before any byte is read, so that a reply never pairs old bytes with a newer counter.
Errc begin_read(const LocalDatafile& datafile, const BytestreamRequest& request, BytestreamCompletion& done,
                std::uint64_t& limit) {
  const std::uint64_t counter = done.bytes > 0 ? done.stat.change_counter : datafile.change_counter();
  const Errc status = datafile.stat(done.stat);
  done.stat.change_counter = counter;
  limit = stream_before_end(request.extents, done.stat.size);
  return status;
}

/// The block that holds the datafile's end can be read only in part. Nothing is read after it, because no later block
/// begins before the end.
void read_direct(const LocalDatafile& datafile, const BytestreamRequest& request, BytestreamCompletion& done) {
  std::uint64_t limit = 0;
  done.status = begin_read(datafile, request, done, limit);
  const int fd = datafile.direct_fd();
  if (fd < 0) done.status = errc_from_errno(-fd);
  if (done.status != Errc::kOk) return;
  PieceCursor cursor(request.extents, request.memory, direct_read_limit(request.extents, done.stat.size));
  std::array<iovec, kPiecesPerCall> pieces;
  while (cursor.left() > 0) {
    const Step step = cursor.next(pieces);
    const ssize_t n = retried(
        [&] { return ::preadv(fd, pieces.data(), static_cast<int>(step.pieces), static_cast<off_t>(step.offset)); });
    if (n < 0) done.status = direct_errc(request, errno);
    if (n <= 0) break;
    done.bytes += static_cast<std::uint64_t>(n);
    if (static_cast<std::uint64_t>(n) < step.bytes) break;
    cursor.advance(step.bytes);
  }
  finish_read(datafile, done);
}

void read(const LocalDatafile& datafile, const BytestreamRequest& request, BytestreamCompletion& done) {
  if (request.direct) return read_direct(datafile, request, done);
  std::uint64_t limit = 0;
  done.status = begin_read(datafile, request, done, limit);
  if (done.status != Errc::kOk) return;
  if (done.bytes >= limit) return;
  done.status = read_pieces(datafile.fd(), cursor_at(request, done.bytes, limit), 0, done.bytes);
  if (done.bytes < limit) finish_read(datafile, done);
}

bool try_read(const LocalDatafile& datafile, LocalAbilities& abilities, const BytestreamRequest& request,
              BytestreamCompletion& done) {
  std::uint64_t limit = 0;
  done.status = begin_read(datafile, request, done, limit);
  if (done.status != Errc::kOk || limit == 0) return true;
  if (!abilities.nowait_read.load(std::memory_order_relaxed)) return false;
  done.status = read_pieces(datafile.fd(), cursor_at(request, 0, limit), RWF_NOWAIT, done.bytes);
  if (done.status == Errc::kNotSupported) abilities.nowait_read.store(false, std::memory_order_relaxed);
  if (done.status == Errc::kNotSupported || done.status == Errc::kTryAgain) return false;
  if (done.bytes < limit) finish_read(datafile, done);
  return true;
}

void write(DatafileStore& store, LocalDatafile& datafile, const BytestreamRequest& request,
           BytestreamCompletion& done) {
  const std::uint64_t total = total_size(request.extents);
  done.status = store.admit(datafile, request.extents);
  const int fd = request.direct ? datafile.direct_fd() : datafile.fd();
  if (fd < 0) done.status = errc_from_errno(-fd);
  if (done.status == Errc::kOk) {
    const ChangeScope change(datafile, request.now);
    const bool alone = takes_gaps(datafile, request);
    done.status = write_pieces(fd, cursor_at(request, done.bytes, total), request, 0, alone, done.bytes);
  }
  finish_change(store, datafile, done);
}

bool try_write(DatafileStore& store, LocalDatafile& datafile, LocalAbilities& abilities,
               const BytestreamRequest& request, BytestreamCompletion& done) {
  if (!abilities.nowait_write.load(std::memory_order_relaxed)) return false;
  {
    const ChangeScope change(datafile, request.now, ChangeScope::MustNotWait());
    if (!change.begun()) return false;
    const bool alone = takes_gaps(datafile, request);
    const PieceCursor cursor(request.extents, request.memory, total_size(request.extents));
    done.status = write_pieces(datafile.fd(), cursor, request, RWF_NOWAIT, alone, done.bytes);
  }
  if (done.status == Errc::kNotSupported) abilities.nowait_write.store(false, std::memory_order_relaxed);
  if (done.status == Errc::kNotSupported || done.status == Errc::kTryAgain) return false;
  finish_change(store, datafile, done);
  return true;
}

Errc for_each_extent(int fd, std::span<const Extent> extents, int mode) {
  for (const Extent& extent : extents) {
    if (extent.size == 0) continue;
    const auto offset = static_cast<off_t>(extent.offset);
    const auto size = static_cast<off_t>(extent.size);
    if (retried([&] { return ::fallocate(fd, mode, offset, size); }) != 0) return errc_from_errno(errno);
  }
  return Errc::kOk;
}

std::uint64_t end_of(std::span<const Extent> extents) {
  std::uint64_t end = 0;
  for (const Extent& extent : extents) end = std::max(end, extent.size == 0 ? 0 : extent.offset + extent.size);
  return end;
}

void change(DatafileStore& store, LocalDatafile& datafile, const BytestreamRequest& request,
            BytestreamCompletion& done) {
  {
    const ChangeScope scope(datafile, request.now);
    if (request.op == BytestreamOp::kTruncate) {
      const auto size = static_cast<off_t>(request.size);
      if (retried([&] { return ::ftruncate(datafile.fd(), size); }) != 0) done.status = errc_from_errno(errno);
    } else {
      done.status = for_each_extent(datafile.fd(), request.extents, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    }
  }
  finish_change(store, datafile, done);
}

void allocate(DatafileStore& store, LocalDatafile& datafile, const BytestreamRequest& request,
              BytestreamCompletion& done) {
  done.status = store.admit(datafile, request.extents);
  if (done.status == Errc::kOk) done.status = datafile.stat(done.stat);
  if (done.status == Errc::kOk) {
    const bool grows = request.extend && end_of(request.extents) > done.stat.size;
    const ChangeScope change(datafile, request.now);
    done.status = for_each_extent(datafile.fd(), request.extents, grows ? 0 : FALLOC_FL_KEEP_SIZE);
  }
  // The kernel sets the inode's times when it reserves space. The times of the content are stored over them.
  datafile.touch();
  finish_change(store, datafile, done);
}

void sync(DatafileStore& store, LocalDatafile& datafile, BytestreamCompletion& done) {
  done.status = datafile.write_back();
  if (::fsync(datafile.fd()) != 0) done.status = errc_from_errno(errno);
  if (done.status == Errc::kOk && !datafile.entry_synced()) {
    done.status = store.sync_entry(datafile.id());
    if (done.status == Errc::kOk) datafile.set_entry_synced();
  }
  const Errc asked = datafile.stat(done.stat);
  if (done.status == Errc::kOk) done.status = asked;
}

void copy(DatafileStore& store, LocalDatafile& datafile, const BytestreamRequest& request, BytestreamCompletion& done) {
  const Result<DatafileStore::Datafile> source = store.open(request.source, false);
  if (!source && source.code() != Errc::kNotFound) {
    done.status = source.code();
    return;
  }
  const Extent& to = request.extents.front();
  done.status = store.admit(datafile, request.extents);
  if (done.status == Errc::kOk) {
    const ChangeScope change(datafile, request.now);
    done.status = copy_range({source ? (*source)->fd() : -1, request.source_offset}, datafile.fd(), to);
  }
  finish_change(store, datafile, done);
}

/// Opens the file again, so that the holder's offset and flags are not those of this process.
void lend(const LocalDatafile& datafile, LendAccess how, BytestreamCompletion& done) {
  const int access = how == LendAccess::kRead ? O_RDONLY : how == LendAccess::kWrite ? O_WRONLY : O_RDWR;
  const std::string self = "/proc/self/fd/" + std::to_string(datafile.fd());
  UniqueFd fd(::open(self.c_str(), access | O_CLOEXEC | O_NOATIME));
  if (!fd) {
    done.status = errc_from_errno(errno);
    return;
  }
  done.file = std::make_shared<DatafileDescriptor>(std::move(fd));
}

/// Whether the operation creates the datafile. An empty write and a truncate to 0 do not: it stays empty. A punch does:
/// the datafile keeps its time.
bool creates(const BytestreamRequest& request) {
  switch (request.op) {
    case BytestreamOp::kWrite:
    case BytestreamOp::kCopy:
    case BytestreamOp::kPunch:
    case BytestreamOp::kAllocate: return total_size(request.extents) > 0;
    case BytestreamOp::kTruncate: return request.size > 0;
    default: return false;
  }
}

/// The outcome for a datafile that was never written.
void answer_absent(DatafileStore& store, const BytestreamRequest& request, BytestreamCompletion& done) {
  done.status = Errc::kOk;
  if (request.op == BytestreamOp::kOpen || request.op == BytestreamOp::kLend) done.status = Errc::kNotFound;
  if (request.op == BytestreamOp::kSync) done.status = store.sync_entry(request.id);
  if (request.op == BytestreamOp::kDataRanges) done.complete_to = kMaxDatafileBytes;
}

void execute_on(DatafileStore& store, LocalDatafile& datafile, const BytestreamRequest& request,
                BytestreamCompletion& done) {
  switch (request.op) {
    case BytestreamOp::kRead: return read(datafile, request, done);
    case BytestreamOp::kWrite: return write(store, datafile, request, done);
    case BytestreamOp::kTruncate:
    case BytestreamOp::kPunch: return change(store, datafile, request, done);
    case BytestreamOp::kAllocate: return allocate(store, datafile, request, done);
    case BytestreamOp::kSync: return sync(store, datafile, done);
    case BytestreamOp::kCopy: return copy(store, datafile, request, done);
    case BytestreamOp::kDataRanges:
      done.status = find_data_ranges(datafile.fd(), request.size, request.max_ranges, done);
      break;
    case BytestreamOp::kOpen: done.file = datafile.descriptor(); break;
    case BytestreamOp::kMakeResident: done.status = make_resident(datafile.fd(), request.extents); break;
    case BytestreamOp::kLend: lend(datafile, request.access, done); break;
    case BytestreamOp::kNoteChange: {
      const ChangeScope noted(datafile, request.now);
      break;
    }
    case BytestreamOp::kProbeCache: done.status = count_resident(datafile.fd(), request.extents, done.bytes); break;
    case BytestreamOp::kStat:
    case BytestreamOp::kReplace:
    case BytestreamOp::kRemove: break;
  }
  const Errc asked = datafile.stat(done.stat);
  if (done.status == Errc::kOk) done.status = asked;
}

}  // namespace

void finish_read(const LocalDatafile& datafile, BytestreamCompletion& done) {
  const std::uint64_t counter = done.stat.change_counter;
  const Errc asked = datafile.stat(done.stat);
  done.stat.change_counter = counter;
  if (done.status == Errc::kOk) done.status = asked;
}

void finish_change(DatafileStore& store, LocalDatafile& datafile, BytestreamCompletion& done) {
  const Errc asked = datafile.stat(done.stat);
  if (asked == Errc::kOk) store.changed(datafile, done.stat);
  if (done.status == Errc::kOk) done.status = asked;
}

void execute(DatafileStore& store, const BytestreamRequest& request, BytestreamCompletion& done) {
  done.status = Errc::kOk;
  if (request.op == BytestreamOp::kRemove || request.op == BytestreamOp::kReplace) {
    done.status = request.op == BytestreamOp::kRemove ? store.remove(request.id) : store.replace(request.id);
    return;
  }
  const Result<DatafileStore::Datafile> datafile = store.open(request.id, creates(request));
  if (datafile) return execute_on(store, **datafile, request, done);
  if (datafile.code() == Errc::kNotFound) return answer_absent(store, request, done);
  done.status = datafile.code();
}

bool try_execute(DatafileStore& store, LocalAbilities& abilities, const BytestreamRequest& request,
                 BytestreamCompletion& done) {
  switch (request.op) {
    case BytestreamOp::kRemove:
    case BytestreamOp::kReplace:
    case BytestreamOp::kSync: return false;
    default: break;
  }
  DatafileStore::Datafile datafile = store.find(request.id);
  if (datafile == nullptr) {
    Result<DatafileStore::Datafile> opened = store.try_open(request.id);
    if (opened.code() == Errc::kNotFound && !creates(request)) {
      answer_absent(store, request, done);
      return true;
    }
    if (!opened) return false;
    datafile = *std::move(opened);
  }
  switch (request.op) {
    case BytestreamOp::kRead: return try_read(*datafile, abilities, request, done);
    case BytestreamOp::kWrite: return try_write(store, *datafile, abilities, request, done);
    case BytestreamOp::kMakeResident:
      if (!is_resident(datafile->fd(), request.extents, abilities.cachestat)) return false;
      done.status = datafile->stat(done.stat);
      return true;
    case BytestreamOp::kStat:
    case BytestreamOp::kProbeCache:
    case BytestreamOp::kLend:
    case BytestreamOp::kOpen: execute_on(store, *datafile, request, done); return true;
    case BytestreamOp::kNoteChange:
      if (!ChangeScope(*datafile, request.now, ChangeScope::MustNotWait()).begun()) return false;
      done.status = datafile->stat(done.stat);
      return true;
    default: return false;
  }
}

}  // namespace spate::trove
