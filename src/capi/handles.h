// SPDX-License-Identifier: Apache-2.0
// What is behind the handles of spate.h, and how a call is made: now, or started.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "assembly/client_process.h"
#include "capi/spate.h"
#include "posix/file_system.h"

namespace spate::capi {

/// What an operation gives: what the C function returns.
using Outcome = Result<std::int64_t>;
using Work = job::Task<Outcome>;

}  // namespace spate::capi

struct spate_fs {
  std::unique_ptr<spate::assembly::ClientProcess> process;
  std::unique_ptr<spate::posix::FileSystem> posix;
  std::atomic<std::size_t> in_use{0};  // open files, operations not waited for, calls under way
};

struct spate_file {
  spate_fs* fs = nullptr;
  std::unique_ptr<spate::posix::OpenFile> file;  // touched on the executor only, but for what never changes
};

struct spate_op {
  spate_fs* fs = nullptr;
  std::unique_ptr<spate::client::Driver::StartedTask<spate::capi::Outcome>> task;
};

namespace spate::capi {

/// Remembers the sentence for spate_last_error() and yields the negative errno.
int refuse(const Error& error) noexcept;
/// The same for what the caller did wrong.
int refuse_argument(const char* sentence) noexcept;
/// A null pointer where none may be.
int refuse_null(const char* what) noexcept;
inline std::int64_t conclude(const Outcome& outcome) noexcept { return outcome ? *outcome : refuse(outcome.error()); }

/// A path below the root; `path` is not null.
posix::Where at(const char* path, bool follow = true);
/// A path below an open directory.
posix::Where at(const spate_file& directory, const char* path, bool follow = true);

/// The memory of a call, as views. kInvalidArgument: a count out of 0 .. IOV_MAX, more than SSIZE_MAX bytes, a null
/// pointer.
template <typename View>
Result<std::vector<View>> memory_of(const iovec* memory, int count);

Result<datatype::Description> description_of(const spate_range* ranges, std::size_t count);
Result<datatype::Description> description_of(const spate_strided* what);

/// A call under way, by whatever thread: until its end spate_disconnect() is refused. Giving `in_use` back is the last
/// that touches `fs`: from then on another thread may free it.
class CallOf {
 public:
  explicit CallOf(spate_fs* fs) : fs_(fs) { ++fs_->in_use; }
  CallOf(const CallOf&) = delete;
  CallOf& operator=(const CallOf&) = delete;
  ~CallOf() { --fs_->in_use; }

 private:
  spate_fs* const fs_;
};

/// Runs `make()`, which returns a Work, to its end.
template <typename Make>
std::int64_t now(spate_fs* fs, const Make& make) noexcept {
  const CallOf call(fs);
  try {
    return conclude(fs->process->driver().run(make));
  } catch (const std::bad_alloc&) {
    return refuse(Errc::kNoMemory);
  }
}

/// Starts it. `make` holds copies of whatever the caller need not keep.
template <typename Make>
int later(spate_fs* fs, Make make, spate_op** op) noexcept {
  const CallOf call(fs);
  try {
    auto started = std::make_unique<spate_op>();
    started->fs = fs;
    started->task = fs->process->driver().start(std::move(make));
    ++fs->in_use;
    *op = started.release();
    return 0;
  } catch (const std::bad_alloc&) {
    return refuse(Errc::kNoMemory);
  }
}

}  // namespace spate::capi
