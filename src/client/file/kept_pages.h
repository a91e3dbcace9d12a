// SPDX-License-Identifier: Apache-2.0
// KeptPages: which files' pages somebody above holds as they are on the servers (docs/mount.md, "Reading back").
#pragma once

#include <mutex>
#include <set>
#include <span>
#include <unordered_map>

#include "client/file/file.h"

namespace spate::client {

/// Close-to-open, for the one page cache above this client (a mount's kernel). An open keeps the pages when the file's
/// datafiles have not changed since the pages were last known to agree with them: since an open that dropped them, or
/// since the end of a time in which this client alone had the file open for writing and all changes went through the
/// pages. The datafiles' change counters tell. Thread-safe; the coroutines run on the client's executor.
class KeptPages {
 public:
  using Kept = HandoverState::Kept;
  /// `memory`: what an earlier process knew, all zero at first; its size is a power of two, the number of files that
  /// are remembered at most; outlives this. Every entry is true whenever the process ends.
  explicit KeptPages(std::span<Kept> memory);
  KeptPages(const KeptPages&) = delete;
  KeptPages& operator=(const KeptPages&) = delete;

  /// Tells whether the pages of a file that was just opened may stay. Asks the io servers, for at most a second, if
  /// somebody may be writing the file. After false the caller drops the pages and then calls dropped().
  job::Task<bool> opened(File& file);
  /// The pages have been dropped since opened() said so of a file with these attributes.
  void dropped(const Attributes& as_opened);
  /// Closes the file, for a kernel that tells nobody of the result. If the pages have followed all changes, they agree
  /// with the present state of the datafiles. `on_ended`: as File::close().
  job::Task<Result<Attributes>> close(File& file, UniqueFunction<void()> on_ended = {});
  /// The file's data has changed, or may have, and its pages have not followed: the next open drops them.
  void spoil(Handle handle);

 private:
  /// While files are open for writing here.
  struct Writing {
    std::set<const File*> files;  // that may write
    std::uint32_t opens = 0;      // how many have been among `files`
    const File* last = nullptr;   // the last of them, whose close is under way
    std::uint32_t epoch = 0;      // of the session in which they were opened
    bool spoiled = false;
  };

  Kept& place(Handle handle) const;
  std::optional<Kept> find(Handle handle) const;
  void put(const Attributes& attributes);
  void erase(Handle handle);
  void begin_writing(const File& file);
  bool followed(const File& file);
  std::uint32_t stop_writing(const File& file);
  void end_writing(const File& file, const Result<Attributes>& closed);

  std::mutex mutex_;  // guards all
  const std::span<Kept> memory_;
  std::unordered_map<Handle, Writing> writing_;
};

}  // namespace spate::client
