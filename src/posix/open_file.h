// SPDX-License-Identifier: Apache-2.0
// OpenFile: an open file description as POSIX defines it. open() makes it, and descriptors refer to it.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <memory>
#include <span>

#include "client/client.h"
#include "job/semaphore.h"
#include "posix/directory_reader.h"
#include "posix/open_file_locks.h"

namespace spate::posix {

/// The offset of the next read or write. A front end may keep it in memory that processes share (fork). Then it must
/// make sure that they do not use it at the same time.
using Position = std::atomic<std::uint64_t>;

/// A regular file, a directory, or an object that only serves as a place (O_PATH). Calls that its kind or access mode
/// does not allow fail as POSIX says: kBadDescriptor, kIsDirectory, kNotDirectory, kInvalidArgument. Not thread-safe:
/// one executor, any number of calls at a time; those that use the position take turns. Life cycle: FileSystem::open()
/// -> calls -> close() awaited -> destroyed. Without close() the servers count the file as open until the session ends.
class OpenFile {
 public:
  struct Parts {
    Handle handle;
    FileType type = FileType::kRegular;
    int flags = 0;                       // of open(2)
    std::unique_ptr<client::File> file;  // null: a directory or O_PATH
    Attributes attributes = {};          // at the time of the open
  };
  OpenFile(client::Client& client, Parts parts);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  Handle handle() const { return handle_; }
  FileType type() const { return type_; }
  /// Access mode and status flags, as F_GETFL returns them.
  int flags() const { return flags_.load(std::memory_order_relaxed); }
  /// F_SETFL with O_APPEND. Affects calls that begin afterwards. Any thread may call it.
  void set_append(bool on) {
    if (on)
      flags_.fetch_or(O_APPEND, std::memory_order_relaxed);
    else
      flags_.fetch_and(~O_APPEND, std::memory_order_relaxed);
  }
  /// The client's file, for calls that POSIX does not have. Null: this is not a regular file.
  client::File* file() { return file_.get(); }

  /// From now on the file uses `position`, which the caller has initialised and which outlives this object.
  void share_position(Position& position) { position_ = &position; }

  // Read and write at a given offset. Reads are short only at the end of the file; holes read as zeros.
  job::Task<Result<std::uint64_t>> pread(std::uint64_t offset, std::span<const MutableByteView> memory);
  /// Writes everything or fails; after a failure a part may have been written. With O_APPEND it writes at the end, as
  /// on Linux, and the appends of all clients run one after another.
  job::Task<Result<std::uint64_t>> pwrite(std::uint64_t offset, std::span<const ByteView> memory);
  /// Reads or writes pieces of the file in any shape, with one request to each server (list and strided I/O).
  job::Task<Result<std::uint64_t>> read_list(const datatype::Description& what,
                                             std::span<const MutableByteView> memory);
  job::Task<Result<std::uint64_t>> write_list(const datatype::Description& what, std::span<const ByteView> memory);

  // Read and write at the position, and move it by the bytes done.
  job::Task<Result<std::uint64_t>> read(std::span<const MutableByteView> memory);
  job::Task<Result<std::uint64_t>> write(std::span<const ByteView> memory);
  /// SEEK_SET, SEEK_CUR, SEEK_END. SEEK_DATA and SEEK_HOLE depend on the io servers' local file systems: written bytes
  /// are never in a hole, but other bytes in the same block of a datafile may count as data. Of a directory: SEEK_SET
  /// to 0 or to a value of DirectoryItem::next. kInvalidArgument; kNoSuchDevice: there is no data.
  job::Task<Result<std::uint64_t>> seek(std::int64_t offset, int whence);

  /// copy_file_range(2) from `source`. If an offset is not given, that file's position is used and moved. Returns the
  /// number of bytes copied; fewer at the source's end. kBadDescriptor (also with O_APPEND), kIsDirectory,
  /// kInvalidArgument (ranges of one file overlap), kFileTooBig.
  struct CopyParams {
    std::optional<std::int64_t> from;
    std::optional<std::int64_t> to;
    std::uint64_t size = 0;
  };
  job::Task<Result<std::uint64_t>> copy_from(OpenFile& source, CopyParams params);

  job::Task<Result<void>> truncate(std::int64_t size);
  /// fallocate(2); see posix/sparse.h.
  job::Task<Result<void>> allocate(int mode, std::int64_t offset, std::int64_t size);
  /// fsync. Of a directory: name-space changes that were acknowledged before become durable.
  job::Task<Result<void>> sync();
  job::Task<Result<Attributes>> stat();
  /// Sets the attributes that `request` has. Sets the request's `where` itself.
  job::Task<Result<Attributes>> set_attributes(wire::SetattrRequest request);

  /// The next entry, or nothing at the end. An entry that is created or removed meanwhile may be returned or not; every
  /// other entry is returned once.
  job::Task<Result<std::optional<DirectoryItem>>> next_entry(bool with_attributes = false);

  /// flock(2) of this open file: LOCK_SH, LOCK_EX or LOCK_UN, perhaps with LOCK_NB (kTryAgain). If stopped before: the
  /// token's reason.
  job::Task<Result<void>> flock(int operation, job::StopToken stop = {});
  /// fcntl(2) with F_SETLK (`wait`: F_SETLKW), or with their F_OFD_ forms. kTryAgain, kDeadlock, kNoLocks.
  job::Task<Result<void>> set_lock(RecordLock lock, bool wait, job::StopToken stop = {});
  /// F_GETLK, F_OFD_GETLK: the lock that conflicts; l_type F_UNLCK if none does.
  job::Task<Result<struct ::flock>> get_lock(RecordLock lock);
  /// The lock that flock() and set_lock() would request, without `owner`. Fails if this open file does not allow the
  /// lock. For a front end whose locks are held by another process.
  Result<wire::LockSpec> flock_spec(int operation) const;
  job::Task<Result<wire::LockSpec>> record_lock_spec(RecordLock lock, bool sets);

  /// Ends the open. kLostWrite: a write that was not synced may be lost. The object must not be used afterwards,
  /// whatever the result is.
  job::Task<Result<void>> close();

 private:
  Result<void> check_file(bool writes) const;
  Result<void> check_lockable() const;
  Result<void> check_copy(const OpenFile& source) const;
  job::Task<Result<std::uint64_t>> copy_now(OpenFile& source, client::CopySpan span);
  job::Task<Result<std::uint64_t>> write_at(std::uint64_t offset, std::span<const ByteView> memory);
  job::Task<Result<std::uint64_t>> append(std::span<const ByteView> memory);
  job::Task<Result<std::uint64_t>> end_of_file();

  client::Client& client_;
  const Handle handle_;
  const FileType type_;
  std::atomic<int> flags_;
  std::unique_ptr<client::File> file_;
  Attributes attributes_;  // for an object without data, such as a directory: as last seen
  Position own_position_{0};
  Position* position_ = &own_position_;
  job::Semaphore position_turn_;
  OpenFileLocks locks_;
  DirectoryReader entries_;  // used if it is a directory
};

}  // namespace spate::posix
