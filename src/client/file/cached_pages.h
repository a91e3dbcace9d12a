// SPDX-License-Identifier: Apache-2.0
// CachedPages: records for which files the pages of a cache above this client agree with the data on the servers
// (docs/mount.md, "Reading back").
#pragma once

#include <mutex>
#include <set>
#include <span>
#include <unordered_map>

#include "client/file/file.h"

namespace spate::client {

/// Close-to-open consistency for the one page cache above this client (a mount's kernel). An open keeps the pages if
/// the file's datafiles, as their change counters tell, have not changed since the pages agreed with them. The pages
/// agree after an open that dropped them, and after a time in which only this client had the file open for writing and
/// all changes went through the pages.
///
/// Life cycle of one open: opened() -> [dropped()] -> reads and writes -> close(). A File that was given to opened()
/// and may write must be given to close(), too, because this object keeps its address until then. No coroutine of this
/// object runs when it is destroyed. Thread-safe; the coroutines run on the client's executor.
class CachedPages {
 public:
  using PageRecord = HandoverState::PageRecord;
  /// `memory`: the records of an earlier process; at first all zeros. Its size, a power of two, limits how many files
  /// are remembered. It outlives this object. Each record is correct at any moment at which the process may end.
  explicit CachedPages(std::span<PageRecord> memory);
  CachedPages(const CachedPages&) = delete;
  CachedPages& operator=(const CachedPages&) = delete;

  /// Whether the pages of a file that was just opened may stay. If somebody may be writing the file, this asks the io
  /// servers, for a second at most. After false the caller drops the pages and then calls dropped().
  job::Task<bool> opened(File& file);
  /// The same for an open for reading of a file that nobody is writing. `now`: its attributes.
  bool opened_for_reading(const Attributes& now);
  /// The caller has dropped the pages because opened() demanded it. `as_opened`: the attributes that the open returned.
  void dropped(const Attributes& as_opened);
  /// Closes the file for a kernel that tells no program the result. If the pages have followed all changes, they agree
  /// with the datafiles afterwards. `on_ended`: as in File::close().
  job::Task<Result<Attributes>> close(File& file, UniqueFunction<void()> on_ended = {});
  /// A file was closed that only this client has written, through the pages. `data`: the state of its datafiles.
  void closed(Handle handle, const wire::DataSummary& data);
  /// The file's data has changed, or may have, and the pages have not followed. So the next open drops them.
  void spoil(Handle handle);

 private:
  /// The opens of one file for writing.
  struct Writing {
    std::set<const File*> files;  // the open files that may write
    std::uint32_t opens = 0;      // the number of opens that have been among `files`
    const File* last = nullptr;   // the last of them to end; its close is under way
    std::uint32_t epoch = 0;      // of the session in which they were opened
    bool spoiled = false;
  };

  PageRecord& place(Handle handle) const;
  std::optional<PageRecord> find(Handle handle) const;
  void put(Handle file, std::uint64_t size, std::uint64_t change_sum);
  void erase(Handle handle);
  void begin_writing(const File& file);
  bool followed(const File& file);
  std::uint32_t stop_writing(const File& file);
  void end_writing(const File& file, const Result<Attributes>& closed);

  std::mutex mutex_;  // guards all other members
  const std::span<PageRecord> memory_;
  std::unordered_map<Handle, Writing> writing_;
};

}  // namespace spate::client
