// SPDX-License-Identifier: Apache-2.0
#include "client/bypass/leased_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <cerrno>

#include "base/shared_page.h"
#include "job/off_loop.h"
#include "model/reserved_space.h"

namespace spate::client {
namespace {

bool lies_in_memory(int fd) {
  struct statfs fs{};
  return ::fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/// Whether there are enough free descriptors. The kernel gives the lowest free number, and the upper half of the
/// numbers is left for the program.
bool has_room(int fd) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(fd) < limit.rlim_cur / 2;
}

class KernelLeasedFile final : public LeasedFile, private FileCalls {
 public:
  KernelLeasedFile(UniqueFd file, SharedPage page, job::Executor& executor, Workers& workers)
      : file_(std::move(file)), page_(std::move(page)), executor_(executor), workers_(workers) {}

  /// Checks the file before its first use. False: it is no regular file.
  bool look_first(std::map<dev_t, WriteLatency>& latency, const Clock& clock) {
    struct stat st{};
    const int access = ::fcntl(file_.get(), F_GETFL);
    if (access < 0 || ::fstat(file_.get(), &st) != 0 || !S_ISREG(st.st_mode)) return false;
    device_ = st.st_dev;
    inode_ = st.st_ino;
    readable_ = (access & O_ACCMODE) != O_WRONLY;
    FileCalls& calls = *this;
    io_.emplace(calls, latency[device_], clock);
    if (lies_in_memory(file_.get())) io_->never_waits();
    return true;
  }

  LeaseWords& words() override { return *reinterpret_cast<LeaseWords*>(page_.data()); }
  bool readable() const override { return readable_; }
  std::optional<std::uint64_t> size() const override {
    struct stat st{};
    if (::fstat(file_.get(), &st) != 0 || st.st_dev != device_ || st.st_ino != inode_) return std::nullopt;
    return static_cast<std::uint64_t>(st.st_size);
  }
  bool has_space() const override {
    struct statvfs fs{};
    if (::fstatvfs(file_.get(), &fs) != 0) return false;
    const std::uint64_t block = fs.f_frsize;
    // Twice what an io server keeps: other clients write, too.
    return fs.f_bavail * block > 2 * reserved_for_records(fs.f_blocks * block);
  }
  void disown() override { std::ignore = file_.release(); }
  bool try_now(LocalMove& move) override { return move.try_now(*io_); }
  job::Task<void> finish(LocalMove& move) override {
    LocalMove* const rest = &move;
    LocalIo* const io = &*io_;
    const auto work = [rest, io] {
      rest->finish(*io);
      return true;
    };
    co_await job::off_loop(executor_, workers_, work);
  }

 private:
  ssize_t move(const LocalIo::Pieces& pieces, bool is_write, int flags) override {
    const auto offset = static_cast<off_t>(pieces.offset);
    const ssize_t n = is_write ? ::pwritev2(file_.get(), pieces.first, pieces.count, offset, flags)
                               : ::preadv2(file_.get(), pieces.first, pieces.count, offset, flags);
    return n < 0 ? -errno : n;
  }

  UniqueFd file_;
  SharedPage page_;
  job::Executor& executor_;
  Workers& workers_;
  bool readable_ = true;
  std::optional<NowaitIo> io_;
  dev_t device_ = 0;  // identifies the file together with inode_
  ino_t inode_ = 0;   // the program may close descriptors that it does not know, and open other files in their place
};

}  // namespace

Result<std::unique_ptr<LeasedFile>> KernelLeasedFiles::open(UniqueFd page, UniqueFd file, bool for_writing) {
  SPATE_TRY(SharedPage mapped, SharedPage::map(page.get(), for_writing));
  if (!has_room(file.get())) return Error(Errc::kBusy, "this process has too many files open for a lease");
  auto leased = std::make_unique<KernelLeasedFile>(std::move(file), std::move(mapped), executor_, workers_);
  if (!leased->look_first(latency_, executor_.clock()))
    return Error(Errc::kProtocol, "the server passed something that is no datafile");
  return std::unique_ptr<LeasedFile>(std::move(leased));
}

}  // namespace spate::client
