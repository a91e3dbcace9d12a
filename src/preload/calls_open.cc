// SPDX-License-Identifier: Apache-2.0
// open, openat, openat2, creat, close.
#include <fcntl.h>
#include <linux/openat2.h>

#include "preload/calls.h"
#include "preload/holding.h"
#include "preload/open_how.h"

namespace spate::preload {
namespace {

struct OpenParams {
  PathArguments arguments;
  int flags;
  unsigned mode;
  std::uint64_t resolve = 0;  // of openat2
};

/// A descriptor for a file that was just opened, or -errno.
long make_descriptor(const ResolvedPath& place, const OpenParams& params, std::unique_ptr<posix::OpenFile> file) {
  int descriptor = -1;
  auto state =
      MappedState::create({file->handle(), file->type(), params.flags, place.mount->prefix(), place.shown}, descriptor);
  if (!state) {
    std::ignore = place.mount->run([&](posix::FileSystem&) { return file->close(); });
    return descriptor;
  }
  return install(std::make_shared<Description>(*place.mount, *std::move(state), std::move(file)), descriptor);
}

Reply open_params(Frame& frame, const OpenParams& params) {
  const bool follow = (params.flags & O_NOFOLLOW) == 0 && (params.flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
  auto place =
      params.resolve == 0 ? locate(frame, params.arguments, follow) : locate_how(frame, params.resolve, follow);
  if (!place) return refuse(place.error());
  if (place->mount == nullptr) return kToKernel;
  posix::OpenRequest request;
  request.where = place->where;
  // The walk has resolved all links. A link that somebody makes there now must not be followed.
  request.flags = params.flags | ((params.resolve & kWalkedHere) != 0 ? O_NOFOLLOW : 0);
  request.mode = with_umask(params.mode);
  auto file = place->mount->run([&](posix::FileSystem& files) { return files.open(request); });
  if (!file && leads_out(file.error())) {
    if ((params.resolve & RESOLVE_NO_XDEV) != 0) return minus(EXDEV);
    redirect(frame, params.arguments, file.error().context());
    return kToKernel;
  }
  if (!file) return refuse(file.error());
  return make_descriptor(*place, params, *std::move(file));
}

unsigned mode_of(int flags, long word) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? static_cast<unsigned>(word) & 07777U : 0;
}

Reply open(Frame& f) { return open_params(f, {kPlain, fd(f, 1), mode_of(fd(f, 1), f.word[2])}); }
Reply openat(Frame& f) { return open_params(f, {kAtPath, fd(f, 2), mode_of(fd(f, 2), f.word[3])}); }
Reply creat(Frame& f) {
  return open_params(f, {kPlain, O_CREAT | O_WRONLY | O_TRUNC, static_cast<unsigned>(f.word[1]) & 07777U});
}

Reply openat2(Frame& f) {
  const auto* const how = memory<const open_how>(f, 2);
  if (const int error = wrong_how(how, static_cast<std::size_t>(f.word[3]))) return minus(error);
  return open_params(f, {kAtPath, static_cast<int>(how->flags), static_cast<unsigned>(how->mode), how->resolve});
}

/// A hidden descriptor of an open file's memory, so that another open file can reuse the memory. -1 unless `number` is
/// the file's last descriptor and neither another process nor the broker has ever had one.
int keep_for_another(int number) {
  const DescriptionRef d = known_description_of(number);
  if (d == nullptr || d->may_be_shared() || d->state()->kept.load() != 0 || d->numbers.load() != 1) return -1;
  return front().keep(number);
}

Reply close(Frame& f) {
  const int number = fd(f, 0);
  if (front().in_vfork_child()) return kToKernel;
  if (front().state->marks[number] == kOwn) return minus(EBADF);
  before_losing(number);
  const int spare = keep_for_another(number);
  DescriptionRef meant = replace(number, nullptr);  // first, because another thread may get the number next
  const long closed = raw(SYS_close, number);
  if (spare >= 0 && meant != nullptr) meant->state().keep_for_another(spare);
  const auto ended = lose(std::move(meant));
  return failed(closed) ? Reply(closed) : done(ended);
}

}  // namespace

Handler open_handler(long number) {
  switch (number) {
    case SYS_open: return open;
    case SYS_openat: return openat;
    case SYS_openat2: return openat2;
    case SYS_creat: return creat;
    case SYS_close: return close;
    default: return nullptr;
  }
}

}  // namespace spate::preload
