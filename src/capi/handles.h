// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of spate.h. Also the two ways to make a call: wait for its end, or start it.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "assembly/client_process.h"
#include "capi/spate.h"
#include "posix/file_system.h"

namespace spate::capi {

/// The result of an operation, which the C function returns.
using Outcome = Result<std::int64_t>;
using Work = job::Task<Outcome>;

}  // namespace spate::capi

struct spate_fs {
  std::unique_ptr<spate::assembly::ClientProcess> process;
  std::unique_ptr<spate::posix::FileSystem> posix;
  std::atomic<std::size_t> in_use{0};  // open files, started operations that nobody has waited for, and running calls
};

struct spate_file {
  spate_fs* fs = nullptr;
  std::unique_ptr<spate::posix::OpenFile> file;  // only the executor uses it, except for its constant members
  std::string name;                              // the path of the open, for messages
  std::string distribution;                      // set by spate_get_layout(); only the executor uses it
  std::atomic<std::size_t> started{0};           // started operations on the file that nobody has waited for
};

struct spate_op {
  spate_fs* fs = nullptr;
  spate_file* file = nullptr;  // the file whose `started` counts it; null: none
  std::string name;            // name of the object, for messages
  std::unique_ptr<spate::client::Driver::StartedTask<spate::capi::Outcome>> task;
};

namespace spate::capi {

/// Stores the message for spate_last_error() and returns the negative errno.
int refuse(const Error& error) noexcept;
/// As refuse(), for an error of the caller.
int refuse_argument(const char* sentence) noexcept;
/// The error for a null pointer that is not allowed.
int refuse_null(const char* what) noexcept;
/// The return value of the C function. An error's message names the object, unless `name` is empty.
std::int64_t conclude(const Outcome& outcome, std::string_view name) noexcept;

/// A path below the root; `path` is not null.
posix::PathAt at(const char* path, bool follow = true);
/// A path below an open directory.
posix::PathAt at(const spate_file& directory, const char* path, bool follow = true);

/// The memory of a call, as views. kInvalidArgument: the count is outside 0 .. IOV_MAX, the bytes are more than
/// SSIZE_MAX, or a pointer is null.
template <typename View>
Result<std::vector<View>> memory_of(const iovec* memory, int count);

/// The first `size` bytes of a pattern's stream in memory at `base`. kInvalidArgument: the pattern has fewer bytes, or
/// these need more than kMostMemoryPieces.
constexpr std::uint64_t kMostMemoryPieces = std::uint64_t{1} << 22U;
template <typename View>
Result<std::vector<View>> memory_of(void* base, const spate_strided* pattern, std::uint64_t size);

/// The descriptions for a list of any length; at least one description.
Result<std::vector<datatype::Description>> description_of(const spate_range* ranges, std::size_t count);
Result<datatype::Description> description_of(const spate_strided* what);
Result<datatype::Description> window_of(const spate_strided* what, Extent window);

/// Marks a running call of any thread, during which spate_disconnect() is refused. The destructor lowers `in_use` as
/// its last access to `fs`, because another thread may free `fs` after that.
class CallOf {
 public:
  explicit CallOf(spate_fs* fs) : fs_(fs) { ++fs_->in_use; }
  CallOf(const CallOf&) = delete;
  CallOf& operator=(const CallOf&) = delete;
  ~CallOf() { --fs_->in_use; }

 private:
  spate_fs* const fs_;
};

/// Runs `make()`, which returns a Work, to its end. `name`: the object's, for messages.
template <typename Make>
std::int64_t now(spate_fs* fs, std::string_view name, const Make& make) noexcept {
  const CallOf call(fs);
  try {
    return conclude(fs->process->driver().run(make), name);
  } catch (const std::bad_alloc&) {
    return refuse(Errc::kNoMemory);
  }
}
template <typename Make>
std::int64_t now(const spate_file* file, const Make& make) noexcept {
  return now(file->fs, file->name, make);
}

/// Starts the Work that `make()` returns. `make` holds copies of everything that the caller need not keep. `file`: must
/// stay open until the operation has been waited for; null: it concerns no open file.
template <typename Make>
int later(spate_fs* fs, std::string_view name, spate_file* file, Make make, spate_op** op) noexcept {
  const CallOf call(fs);
  try {
    auto started = std::make_unique<spate_op>();
    started->fs = fs;
    started->file = file;
    started->name = name;
    started->task = fs->process->driver().start(std::move(make));
    ++fs->in_use;
    if (file != nullptr) ++file->started;
    *op = started.release();
    return 0;
  } catch (const std::bad_alloc&) {
    return refuse(Errc::kNoMemory);
  }
}
template <typename Make>
int later(spate_file* file, Make make, spate_op** op) noexcept {
  return later(file->fs, file->name, file, std::move(make), op);
}

}  // namespace spate::capi
