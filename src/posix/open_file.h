// SPDX-License-Identifier: Apache-2.0
// OpenFile: an open file description, as POSIX has it: what open makes and descriptors refer to.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <memory>
#include <set>
#include <span>

#include "client/client.h"
#include "job/semaphore.h"

namespace spate::posix {

/// A record lock as fcntl(2) has it, and whose: `process` is a number that the face gives each process of its, or with
/// `open_file` the open file description itself.
struct RecordLock {
  struct ::flock range{};
  std::uint64_t process = 0;
  bool open_file = false;
};

/// Where the next read or write takes place. A face may place it in memory that processes share (fork); it then sees to
/// it that they do not use it at the same time.
using Position = std::atomic<std::uint64_t>;

/// One entry of a directory, "." and ".." among them.
struct DirectoryItem {
  std::string name;
  Handle handle;
  FileType type = FileType::kRegular;
  std::uint64_t next = 0;                // for seek(): where reading goes on behind this entry
  std::optional<Attributes> attributes;  // when asked for; not of "." and ".."
};

/// A regular file, a directory, or an object that only serves as a place (O_PATH). What its kind or its access mode
/// does not allow fails as POSIX says: kBadDescriptor, kIsDirectory, kNotDirectory, kInvalidArgument. Made by
/// FileSystem::open. One executor; any number of calls at once (those that use the position take turns). Life cycle: ->
/// close() awaited -> destroyed; without it the servers count it as open until the session ends.
class OpenFile {
 public:
  struct Parts {
    Handle handle;
    FileType type = FileType::kRegular;
    int flags = 0;                       // of open(2)
    std::unique_ptr<client::File> file;  // null: a directory or O_PATH
    Attributes attributes = {};          // as they are now
  };
  OpenFile(client::Client& client, Parts parts);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  Handle handle() const { return handle_; }
  FileType type() const { return type_; }
  /// Access mode and status flags, as F_GETFL tells them.
  int flags() const { return flags_.load(std::memory_order_relaxed); }
  /// F_SETFL with O_APPEND: for the calls that begin from now on. Any thread may call it.
  void set_append(bool on) {
    if (on)
      flags_.fetch_or(O_APPEND, std::memory_order_relaxed);
    else
      flags_.fetch_and(~O_APPEND, std::memory_order_relaxed);
  }
  /// The file below, for what POSIX has no words for; null for what is no file.
  client::File* file() { return file_.get(); }

  /// From now on `position` (initialised by the caller) is used; it outlives this.
  void share_position(Position& position) { position_ = &position; }

  // At a given offset. Short only at the end of the file; holes read as zeros.
  job::Task<Result<std::uint64_t>> pread(std::uint64_t offset, std::span<const MutableByteView> memory);
  /// All of it, or an error after which part of it may have been written. With O_APPEND at the end, as Linux does:
  /// the appends of all clients follow one another.
  job::Task<Result<std::uint64_t>> pwrite(std::uint64_t offset, std::span<const ByteView> memory);
  /// Pieces of the file in any shape, one request a server (list and strided I/O).
  job::Task<Result<std::uint64_t>> read_list(const datatype::Description& what,
                                             std::span<const MutableByteView> memory);
  job::Task<Result<std::uint64_t>> write_list(const datatype::Description& what, std::span<const ByteView> memory);

  // At the position, which they move by what was done.
  job::Task<Result<std::uint64_t>> read(std::span<const MutableByteView> memory);
  job::Task<Result<std::uint64_t>> write(std::span<const ByteView> memory);
  /// SEEK_SET, SEEK_CUR, SEEK_END; SEEK_DATA and SEEK_HOLE as the io servers' local file systems tell of the datafiles:
  /// what was written is never called a hole, but what lies in the same block of a datafile may be called data. A
  /// directory: SEEK_SET to what DirectoryItem::next was, or 0. kInvalidArgument, kNoSuchDevice (no data there).
  job::Task<Result<std::uint64_t>> seek(std::int64_t offset, int whence);

  /// copy_file_range(2) from `source`; an offset that is not given is that file's position, which moves. The bytes
  /// copied: fewer at the source's end. kBadDescriptor (also with O_APPEND), kIsDirectory, kInvalidArgument (ranges of
  /// one file that overlap), kFileTooBig.
  struct CopyWish {
    std::optional<std::int64_t> from;
    std::optional<std::int64_t> to;
    std::uint64_t size = 0;
  };
  job::Task<Result<std::uint64_t>> copy_from(OpenFile& source, CopyWish wish);

  job::Task<Result<void>> truncate(std::int64_t size);
  /// fallocate(2): 0 and KEEP_SIZE reserve, PUNCH_HOLE | KEEP_SIZE and ZERO_RANGE zero; kNotSupported for other modes.
  job::Task<Result<void>> allocate(int mode, std::int64_t offset, std::int64_t size);
  /// fsync. A directory: name-space changes acknowledged before are durable.
  job::Task<Result<void>> sync();
  job::Task<Result<Attributes>> stat();
  /// The given attributes of `request`; its `where` is set here.
  job::Task<Result<Attributes>> set_attributes(wire::SetattrRequest request);

  /// The next entry, or nothing at the end. Entries made or removed meanwhile may be missed or seen; all others come
  /// once.
  job::Task<Result<std::optional<DirectoryItem>>> next_entry(bool with_attributes = false);

  /// flock(2) of this open file: LOCK_SH, LOCK_EX or LOCK_UN, perhaps with LOCK_NB (kTryAgain). Stopped: the token's
  /// reason.
  job::Task<Result<void>> flock(int operation, job::StopToken stop = {});
  /// fcntl(2) with F_SETLK (`wait`: F_SETLKW), or the F_OFD_ ones. kTryAgain, kDeadlock, kNoLocks.
  job::Task<Result<void>> set_lock(RecordLock lock, bool wait, job::StopToken stop = {});
  /// F_GETLK, F_OFD_GETLK: the lock that is in the way, or l_type F_UNLCK.
  job::Task<Result<struct ::flock>> get_lock(RecordLock lock);
  /// What flock() and set_lock() would ask for, and whether they may (all but `owner` of what is the open file's): for
  /// a face whose locks are held by another process.
  Result<wire::LockSpec> flock_spec(int operation) const;
  job::Task<Result<wire::LockSpec>> record_lock_spec(RecordLock lock, bool sets);
  /// What F_GETLK answers to `asked`; nothing found: F_UNLCK.
  static struct ::flock as_flock(const struct ::flock& asked, const std::optional<wire::LockSpec>& found);
  /// A descriptor of this process was closed: its record locks on the file go, whichever descriptor they were made
  /// through.
  job::Task<Result<void>> drop_locks_of(std::uint64_t process);

  /// kLostWrite when a write that was not synced may be gone. The object is of no more use, whatever comes out.
  job::Task<Result<void>> close();

 private:
  Result<void> check_file(bool writes) const;
  Result<void> check_lockable() const;
  Result<void> check_copy(const OpenFile& source) const;
  job::Task<Result<std::uint64_t>> copy_now(OpenFile& source, client::CopySpan span);
  job::Task<Result<void>> release_locks();
  job::Task<Result<std::uint64_t>> write_at(std::uint64_t offset, std::span<const ByteView> memory);
  job::Task<Result<std::uint64_t>> append(std::span<const ByteView> memory);
  job::Task<Result<std::uint64_t>> end_of_file();
  job::Task<Result<std::uint64_t>> find_data(std::int64_t offset, bool hole);
  job::Task<Result<void>> load_page(std::uint64_t position, bool with_attributes);
  std::optional<DirectoryItem> dot_entry(std::uint64_t position) const;

  client::Client& client_;
  const Handle handle_;
  const FileType type_;
  std::atomic<int> flags_;
  std::unique_ptr<client::File> file_;
  Attributes attributes_;  // of what is no file: as they were last seen
  Position own_position_{0};
  Position* position_ = &own_position_;
  job::Semaphore position_turn_;
  const std::uint64_t number_;          // as an owner of locks
  std::set<client::LockHolder> locks_;  // who has had locks through this open file

  // Directories: the page that the server sent last, and how far it was read.
  wire::ReaddirReply page_;
  std::size_t page_index_ = 0;
  std::uint64_t page_position_ = 0;  // where reading goes on; another position_ means that somebody has sought
  bool page_loaded_ = false;
  bool page_with_attributes_ = false;
};

}  // namespace spate::posix
