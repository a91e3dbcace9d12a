// SPDX-License-Identifier: Apache-2.0
// Reads, writes, seeks, and other calls on an open file's data.
#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <climits>
#include <vector>

#include "preload/calls.h"

namespace spate::preload {
namespace {

constexpr std::size_t kMostPerCall = 0x7ffff000;  // the limit of Linux
constexpr std::size_t kCopyStep = 1U << 20U;

bool may_read(Description& d) { return (d.flags() & O_PATH) == 0 && (d.flags() & O_ACCMODE) != O_WRONLY; }
bool may_write(Description& d) { return (d.flags() & O_PATH) == 0 && (d.flags() & O_ACCMODE) != O_RDONLY; }

template <typename View>
View view_of(void* data, std::size_t size);
template <>
MutableByteView view_of(void* data, std::size_t size) {
  return {static_cast<std::byte*>(data), size};
}
template <>
ByteView view_of(void* data, std::size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

template <typename View>
Result<std::vector<View>> vector_of(const Frame& frame) {
  const auto* const from = memory<const iovec>(frame, 1);
  const long pieces = frame.word[2];
  if (pieces < 0 || pieces > IOV_MAX) return Errc::kInvalidArgument;
  std::vector<View> views;
  views.reserve(static_cast<std::size_t>(pieces));
  std::size_t room = kMostPerCall;
  for (long i = 0; i < pieces; ++i) {
    if (from[i].iov_len > SSIZE_MAX) return Errc::kInvalidArgument;
    const std::size_t size = std::min(room, from[i].iov_len);
    views.push_back(view_of<View>(from[i].iov_base, size));
    room -= size;
  }
  return views;
}

/// The offset of a read or write. -1 stands for the position, in calls that allow it (preadv2).
struct At {
  bool given = false;
  std::int64_t offset = 0;
};

template <typename View, typename Transfer>
Reply transfer(Frame& f, const std::vector<View>& views, At at, const Transfer& act) {
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  if (at.given && at.offset < 0) return minus(EINVAL);
  const auto offset = static_cast<std::uint64_t>(at.offset);
  return act(*d, std::span<const View>(views), at.given ? &offset : nullptr);
}

template <typename View, typename Transfer>
Reply one_piece(Frame& f, At at, const Transfer& act) {
  const std::vector<View> views{
      view_of<View>(memory<void>(f, 1), std::min(static_cast<std::size_t>(f.word[2]), kMostPerCall))};
  return transfer(f, views, at, act);
}

template <typename View, typename Transfer>
Reply many_pieces(Frame& f, At at, const Transfer& act) {
  auto views = vector_of<View>(f);
  return views ? transfer(f, *views, at, act) : refuse(views.error());
}

constexpr auto kRead = read_from;
constexpr auto kWrite = write_to;
using In = MutableByteView;
using Out = ByteView;

Reply read(Frame& f) { return one_piece<In>(f, {}, kRead); }
Reply write(Frame& f) { return one_piece<Out>(f, {}, kWrite); }
Reply pread(Frame& f) { return one_piece<In>(f, {true, f.word[3]}, kRead); }
Reply pwrite(Frame& f) { return one_piece<Out>(f, {true, f.word[3]}, kWrite); }
Reply readv(Frame& f) { return many_pieces<In>(f, {}, kRead); }
Reply writev(Frame& f) { return many_pieces<Out>(f, {}, kWrite); }
Reply preadv(Frame& f) { return many_pieces<In>(f, {true, f.word[3]}, kRead); }
Reply pwritev(Frame& f) { return many_pieces<Out>(f, {true, f.word[3]}, kWrite); }

/// Whether preadv2 and pwritev2 support the flags, which must be hints or syncs.
bool known_flags(const Frame& f) { return (f.word[5] & ~(RWF_HIPRI | RWF_DSYNC | RWF_SYNC)) == 0; }

Reply preadv2(Frame& f) {
  if (!known_flags(f)) return minus(EOPNOTSUPP);
  return many_pieces<In>(f, {f.word[3] != -1, f.word[3]}, kRead);
}

Reply sync_data(Description& d) {
  return done(d.run([](posix::OpenFile& file) { return file.sync(); }));
}

Reply pwritev2(Frame& f) {
  if (!known_flags(f)) return minus(EOPNOTSUPP);
  const Reply written = many_pieces<Out>(f, {f.word[3] != -1, f.word[3]}, kWrite);
  if (!written || *written < 0 || (f.word[5] & (RWF_DSYNC | RWF_SYNC)) == 0) return written;
  const DescriptionRef d = description_of(fd(f, 0));
  const Reply synced = d == nullptr ? Reply(minus(EBADF)) : sync_data(*d);
  return *synced < 0 ? synced : written;
}

Reply lseek(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  const Turn turn(d->state()->turn);
  if (!turn.held()) return turn.interrupted();
  const auto offset = static_cast<std::int64_t>(f.word[1]);
  const int whence = fd(f, 2);
  return count(d->run([&](posix::OpenFile& file) { return file.seek(offset, whence); }));
}

Reply fsync(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  return d == nullptr ? kToKernel : sync_data(*d);
}

Reply syncfs(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  return done(d->mount().run([](posix::FileSystem& files) { return files.sync(); }));
}

Reply ftruncate(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  if (!may_write(*d)) return minus((d->flags() & O_PATH) != 0 ? EBADF : EINVAL);
  const auto size = static_cast<std::int64_t>(f.word[1]);
  return done(d->run([&](posix::OpenFile& file) { return file.truncate(size); }));
}

Reply fallocate(Frame& f) {
  const DescriptionRef d = description_of(fd(f, 0));
  if (d == nullptr) return kToKernel;
  if ((d->flags() & O_PATH) != 0) return minus(EBADF);
  const int mode = fd(f, 1);
  const std::int64_t offset = f.word[2];
  const std::int64_t size = f.word[3];
  return done(d->run([&](posix::OpenFile& file) { return file.allocate(mode, offset, size); }));
}

/// Accepts advice, which has no effect on files of Spate.
Reply advice(Frame& f) { return description_of(fd(f, 0)) == nullptr ? kToKernel : Reply(0); }

/// Spate has no page cache whose pages could be moved. After this error callers copy by themselves.
Reply not_for_files(Frame&) { return minus(EINVAL); }

Reply sendfile(Frame& f) {
  auto* const offset = memory<std::int64_t>(f, 2);
  return copy_between(fd(f, 1), offset, fd(f, 0), nullptr, static_cast<std::size_t>(f.word[3]));
}

/// Copies within one file system of Spate, whose servers do the work.
Reply copy_within(Description& in, std::int64_t* in_offset, Description& out, std::int64_t* out_offset,
                  std::size_t size) {
  // Locks in an order that is the same for all processes.
  Description* const first = in.state().identity() < out.state().identity() ? &in : &out;
  Description* const second = first == &in ? &out : &in;
  std::optional<Turn> first_turn;
  std::optional<Turn> second_turn;
  if ((first == &in ? in_offset : out_offset) == nullptr) first_turn.emplace(first->state()->turn);
  if (&in != &out && (second == &in ? in_offset : out_offset) == nullptr) second_turn.emplace(second->state()->turn);
  for (const auto* const turn : {&first_turn, &second_turn}) {
    if (*turn && !(*turn)->held()) return (*turn)->interrupted();
  }
  posix::OpenFile::CopyParams params;
  if (in_offset != nullptr) params.from = *in_offset;
  if (out_offset != nullptr) params.to = *out_offset;
  params.size = std::min(size, kMostPerCall);
  auto source = in.file();
  if (!source) return refuse(source.error());
  const Reply copied = count(out.run([&](posix::OpenFile& file) { return file.copy_from(**source, params); }));
  if (*copied > 0 && in_offset != nullptr) *in_offset += *copied;
  if (*copied > 0 && out_offset != nullptr) *out_offset += *copied;
  return copied;
}

Reply copy_file_range(Frame& f) {
  if (f.word[5] != 0) return minus(EINVAL);
  const DescriptionRef in = description_of(fd(f, 0));
  const DescriptionRef out = description_of(fd(f, 2));
  if (in != nullptr && out != nullptr && &in->mount() == &out->mount())
    return copy_within(*in, memory<std::int64_t>(f, 1), *out, memory<std::int64_t>(f, 3),
                       static_cast<std::size_t>(f.word[4]));
  for (const int descriptor : {fd(f, 0), fd(f, 2)}) {
    if (failed(raw(SYS_fcntl, descriptor, F_GETFD))) return minus(EBADF);  // before anything is read
  }
  return copy_between(fd(f, 0), memory<std::int64_t>(f, 1), fd(f, 2), memory<std::int64_t>(f, 3),
                      static_cast<std::size_t>(f.word[4]));
}

/// Waits until the kernel's descriptor is ready for `event`, in pieces, with a look at pending signals in between. 0:
/// it is ready. Otherwise the result of the call.
long wait_until_ready(int descriptor, short event) {
  constexpr int kReadyPieceMs = 50;
  for (;;) {
    pollfd look{descriptor, event, 0};
    if (raw(SYS_poll, &look, 1, kReadyPieceMs) != 0) return 0;  // also when it has an error, which the call then yields
    if (const long signal = interruption()) return signal;
  }
}

/// Writes to a descriptor of the kernel that may keep a writer waiting. Signals are blocked during a call (entry.cc),
/// so it must not wait in the kernel: it writes only as much as there is room for.
long write_with_room(int descriptor, ByteView data, bool socket) {
  std::size_t written = 0;
  while (written < data.size()) {
    const long blocked = wait_until_ready(descriptor, POLLOUT);
    if (blocked != 0) return written > 0 ? static_cast<long>(written) : blocked;
    const ByteView rest = data.subspan(written);
    const long put = socket ? raw(SYS_sendto, descriptor, rest.data(), rest.size(), MSG_DONTWAIT, nullptr, 0)
                            : raw(SYS_write, descriptor, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
    if (put == -EAGAIN) continue;
    if (failed(put)) return written > 0 ? static_cast<long>(written) : put;
    written += static_cast<std::size_t>(put);
  }
  return static_cast<long>(written);
}

/// Whether a call on the kernel's descriptor may wait for another process.
bool may_wait(int descriptor, mode_t& type) {
  struct stat st{};
  if (failed(raw(SYS_fstat, descriptor, &st))) return false;
  type = st.st_mode & S_IFMT;
  const long flags = raw(SYS_fcntl, descriptor, F_GETFL);
  return (S_ISFIFO(type) || S_ISSOCK(type) || S_ISCHR(type)) && (flags & O_NONBLOCK) == 0;
}

/// Reads or writes through any descriptor. `offset` null: at the descriptor's position.
long any_read(int descriptor, MutableByteView room, const std::int64_t* offset) {
  if (const DescriptionRef d = description_of(descriptor)) {
    const std::uint64_t at = offset == nullptr ? 0 : static_cast<std::uint64_t>(*offset);
    return *read_from(*d, std::span(&room, 1), offset == nullptr ? nullptr : &at);
  }
  if (offset != nullptr) return raw(SYS_pread64, descriptor, room.data(), room.size(), *offset);
  mode_t type = 0;
  const long blocked = may_wait(descriptor, type) ? wait_until_ready(descriptor, POLLIN) : 0;
  return blocked != 0 ? blocked : raw(SYS_read, descriptor, room.data(), room.size());
}

long any_write(int descriptor, ByteView data, const std::int64_t* offset) {
  if (const DescriptionRef d = description_of(descriptor)) {
    const std::uint64_t at = offset == nullptr ? 0 : static_cast<std::uint64_t>(*offset);
    return *write_to(*d, std::span(&data, 1), offset == nullptr ? nullptr : &at);
  }
  if (offset != nullptr) return raw(SYS_pwrite64, descriptor, data.data(), data.size(), *offset);
  mode_t type = 0;
  if (may_wait(descriptor, type)) return write_with_room(descriptor, data, S_ISSOCK(type));
  return raw(SYS_write, descriptor, data.data(), data.size());
}

/// Moves the position back over bytes that were read but could not be written, so that a later call reads them again.
void give_back(int in, std::int64_t bytes) {
  const DescriptionRef d = description_of(in);
  if (d == nullptr) {
    raw(SYS_lseek, in, -bytes, SEEK_CUR);
  } else {
    const Turn turn(d->state()->turn);  // if a signal ended the wait, continue without the turn
    d->state()->position -= static_cast<std::uint64_t>(bytes);
  }
}

}  // namespace

Reply read_from(Description& description, std::span<const MutableByteView> memory, const std::uint64_t* offset) {
  if (description.type() == FileType::kDirectory && (description.flags() & O_PATH) == 0) return minus(EISDIR);
  if (!may_read(description)) return minus(EBADF);
  if (offset != nullptr)
    return count(description.run([&](posix::OpenFile& file) { return file.pread(*offset, memory); }));
  const Turn turn(description.state()->turn);
  if (!turn.held()) return turn.interrupted();
  return count(description.run([&](posix::OpenFile& file) { return file.read(memory); }));
}

Reply write_to(Description& description, std::span<const ByteView> memory, const std::uint64_t* offset) {
  if (!may_write(description)) return minus(EBADF);
  if (offset != nullptr)
    return count(description.run([&](posix::OpenFile& file) { return file.pwrite(*offset, memory); }));
  const Turn turn(description.state()->turn);
  if (!turn.held()) return turn.interrupted();
  return count(description.run([&](posix::OpenFile& file) { return file.write(memory); }));
}

Reply copy_between(int in, std::int64_t* in_offset, int out, std::int64_t* out_offset, std::size_t size) {
  thread_local Bytes step;
  if ((in_offset != nullptr && *in_offset < 0) || (out_offset != nullptr && *out_offset < 0)) return minus(EINVAL);
  const std::size_t wanted = std::min(size, kCopyStep);
  if (step.size() < wanted) step.resize(wanted);
  const long got = any_read(in, MutableByteView(step.data(), wanted), in_offset);
  if (got <= 0) return got;
  const long put = any_write(out, ByteView(step.data(), static_cast<std::size_t>(got)), out_offset);
  const long moved = put < 0 ? 0 : put;
  if (in_offset == nullptr && moved < got) give_back(in, got - moved);
  if (in_offset != nullptr) *in_offset += moved;
  if (out_offset != nullptr) *out_offset += moved;
  return put;
}

Handler data_handler(long number) {
  switch (number) {
    case SYS_read: return read;
    case SYS_write: return write;
    case SYS_pread64: return pread;
    case SYS_pwrite64: return pwrite;
    case SYS_readv: return readv;
    case SYS_writev: return writev;
    case SYS_preadv: return preadv;
    case SYS_pwritev: return pwritev;
    case SYS_preadv2: return preadv2;
    case SYS_pwritev2: return pwritev2;
    case SYS_lseek: return lseek;
    case SYS_fsync:
    case SYS_fdatasync: return fsync;
    case SYS_syncfs: return syncfs;
    case SYS_ftruncate: return ftruncate;
    case SYS_fallocate: return fallocate;
    case SYS_fadvise64:
    case SYS_readahead:
    case SYS_sync_file_range: return advice;
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice: return not_for_files;
    case SYS_sendfile: return sendfile;
    case SYS_copy_file_range: return copy_file_range;
    default: return nullptr;
  }
}

}  // namespace spate::preload
