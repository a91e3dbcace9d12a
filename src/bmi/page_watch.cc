// SPDX-License-Identifier: Apache-2.0
#include "bmi/page_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/thread.h"

namespace spate::bmi {
namespace {

// PageWatch needs events only, never page faults. The kernel permits this user-mode-only form to ordinary users.
constexpr int kUserModeOnly = 1;

Result<UniqueFd> open_userfault() {
  UniqueFd fault(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly)));
  if (!fault) return errno_error(errno, "userfaultfd");
  uffdio_api api{};
  api.api = UFFD_API;
  api.features =
      UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (::ioctl(fault.get(), UFFDIO_API, &api) != 0) return errno_error(errno, "userfaultfd events");
  return fault;
}

}  // namespace

Result<std::unique_ptr<PageWatch>> PageWatch::start() {
  SPATE_TRY(UniqueFd fault, open_userfault());
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return errno_error(errno, "eventfd");
  auto watch = std::unique_ptr<PageWatch>(new PageWatch(std::move(fault), std::move(stop)));
  // The library's thread takes no signal that is for the program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = start_thread(watch->thread_, [raw = watch.get()] { raw->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return Error(Errc::kNoMemory, "no thread to watch memory with");
  return watch;
}

PageWatch::PageWatch(UniqueFd fault, UniqueFd stop) : fault_(std::move(fault)), stop_(std::move(stop)) {}

PageWatch::~PageWatch() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

bool PageWatch::watch(const PageRange& range) {
  // The write protection is never switched on. So no page ever faults, but the events arrive.
  uffdio_register request{};
  request.range = {range.begin, range.size()};
  request.mode = UFFDIO_REGISTER_MODE_WP;
  return ::ioctl(fault_.get(), UFFDIO_REGISTER, &request) == 0;
}

void PageWatch::unwatch(const PageRange& range) {
  uffdio_range request{range.begin, range.size()};
  // This fails if the pages are gone, which does not matter.
  (void)::ioctl(fault_.get(), UFFDIO_UNREGISTER, &request);
}

void PageWatch::run() {
  while (true) {
    pollfd ready[2] = {{fault_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if ((ready[1].revents & POLLIN) != 0) return;
    if ((ready[0].revents & (POLLERR | POLLHUP)) != 0) return;
    if ((ready[0].revents & POLLIN) != 0) read_one();
  }
}

void PageWatch::read_one() {
  uffd_msg event{};
  reading_.fetch_add(1);
  const ssize_t n = ::read(fault_.get(), &event, sizeof event);
  if (n == static_cast<ssize_t>(sizeof event)) {
    if (event.event == UFFD_EVENT_REMOVE || event.event == UFFD_EVENT_UNMAP) {
      push({event.arg.remove.start, event.arg.remove.end});
    } else if (event.event == UFFD_EVENT_REMAP) {
      push({event.arg.remap.from, event.arg.remap.from + event.arg.remap.len});
      push({event.arg.remap.to, event.arg.remap.to + event.arg.remap.len});
    }
  }
  reading_.fetch_add(1);
}

void PageWatch::push(const PageRange& range) {
  const std::lock_guard lock(mutex_);
  if (queued_ == kQueue) {
    overflow_ = true;
  } else {
    queue_[queued_++] = range;
  }
  any_.store(true);
}

void PageWatch::take_ended(const std::function<void(const PageRange&)>& ended) {
  const std::uint32_t seen = reading_.load();
  if (seen % 2 != 0) {
    // The other thread needs only a few instructions to finish.
    while (reading_.load() == seen) std::this_thread::yield();
  }
  while (any_.load()) {
    PageRange range;
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(overflow_, false)) {
        queued_ = 0;
        range = {0, std::numeric_limits<std::uintptr_t>::max()};
      } else if (queued_ > 0) {
        range = queue_[--queued_];
      }
      if (queued_ == 0) any_.store(false);
    }
    if (range.size() > 0) ended(range);
  }
}

}  // namespace spate::bmi
