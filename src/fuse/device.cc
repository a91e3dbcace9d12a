// SPDX-License-Identifier: Apache-2.0
#include "fuse/device.h"

#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "log/log.h"

namespace spate::fuse {
namespace {

constexpr unsigned kMaxWriteBytes = 1U << 20U;  // the kernel's own limit with 256 pages
constexpr unsigned kMaxBackground = 64;
// Defined since protocol 7.40, so this machine's header may lack it.
constexpr std::int32_t kNotifyResend = 7;
constexpr std::uint32_t kParallelDirectWrites = 1U << 6U;  // of an open file; from protocol 7.38

/// set while libfuse replays an old INIT, whose answer nobody needs
thread_local bool swallowing = false;
/// set while libfuse answers the kernel's INIT
thread_local bool answering_init = false;
/// set while libfuse answers an open or a create
thread_local bool answering_open = false;

/// Both answers end with the flags of the open file. With this flag the kernel locks the inode only for writes that
/// append or enlarge the file, and while pages of the file are kept or mapped.
void let_direct_writes_overlap(std::span<const iovec> answer) {
  fuse_open_out out{};
  if (answer.size() != 2 || answer[1].iov_len < sizeof(out)) return;
  auto* const at = static_cast<std::byte*>(answer[1].iov_base) + answer[1].iov_len - sizeof(out);
  std::memcpy(&out, at, sizeof(out));
  if ((out.open_flags & FOPEN_DIRECT_IO) == 0) return;
  out.open_flags |= kParallelDirectWrites;
  std::memcpy(at, &out, sizeof(out));
}

ssize_t write_device(int fd, iovec* parts, int count, void* user) {
  const auto& mount = *static_cast<const Mount*>(user);
  if (answering_init) {
    add_abilities(kernel_init_of(mount.handover), kAbilities, {parts, static_cast<std::size_t>(count)});
  }
  // Linux 6.9 keeps such writes apart from pages that are kept or mapped. It is also the first version that can repeat
  // requests.
  if (answering_open && can_resend(mount)) let_direct_writes_overlap({parts, static_cast<std::size_t>(count)});
  if (!swallowing) return ::writev(fd, parts, count);
  ssize_t size = 0;
  for (int i = 0; i < count; ++i) size += static_cast<ssize_t>(parts[i].iov_len);
  return size;
}

/// Touches the pages. Otherwise they would be made while the kernel copies a request into them, and if this process
/// were killed at that moment, the kernel would fail the request with EIO instead of keeping it for the next process.
void make_pages(void* memory, std::size_t size) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* const bytes = static_cast<volatile char*>(memory);
  for (std::size_t at = 0; at < size; at += page) bytes[at] = 0;
  if (size > 0) bytes[size - 1] = 0;
}

/// A thread reads into the same memory each time.
ssize_t read_device(int fd, void* memory, std::size_t size, void*) {
  thread_local const void* made = nullptr;
  if (made != memory) make_pages(memory, size);
  made = memory;
  return ::read(fd, memory, size);
}

void init(void* user, fuse_conn_info* connection) {
  const auto& mount = *static_cast<const Mount*>(user);
  KernelInit& init = kernel_init_of(mount.handover);
  const auto want = [&](unsigned capability, bool on) {
    connection->want &= ~capability;
    if (on) connection->want |= connection->capable & capability;
  };
  want(FUSE_CAP_ASYNC_READ, true);
  want(FUSE_CAP_ASYNC_DIO, true);
  want(FUSE_CAP_ATOMIC_O_TRUNC, true);
  want(FUSE_CAP_PARALLEL_DIROPS, true);
  want(FUSE_CAP_EXPORT_SUPPORT, true);
  // The kernel asks for access lists for users that are not the owner, and leaves the umask to the mount.
  want(FUSE_CAP_POSIX_ACL, mount.options.acl && checked_by_kernel(mount.options));
  want(FUSE_CAP_DONT_MASK, mount.options.acl);
  want(FUSE_CAP_WRITEBACK_CACHE, mount.options.cache == CacheMode::kWriteback);
  // Pages are dropped at open. Asking for attributes before each read would cost a round trip each time.
  want(FUSE_CAP_AUTO_INVAL_DATA, false);
  want(FUSE_CAP_EXPLICIT_INVAL_DATA, true);
  // If the kernel may not keep attributes, it asks for them again at once. It takes names that it may keep from a
  // listing's answer even if it was told meanwhile to drop them. So it would get nodes for nothing, and would have to
  // forget them. The result of a listing stays with the mount (docs/mount.md, "Listings").
  want(FUSE_CAP_READDIRPLUS, false);
  want(FUSE_CAP_SPLICE_READ, false);                 // requests are small, or are copied once either way
  want(FUSE_CAP_SPLICE_WRITE, false);                // replies come from memory that is used again
  if (init.done != 0) connection->want = init.want;  // the kernel keeps to the first answer
  init.want = connection->want;
  connection->max_write = std::min(connection->max_write, kMaxWriteBytes);
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kMaxBackground * 3 / 4;
  SPATE_LOG("fuse", info,
            "connected to the kernel protocol={}.{} capable={:#x} want={:#x} max_write={} readahead={} readdirplus={}",
            connection->proto_major, connection->proto_minor, connection->capable, connection->want,
            connection->max_write, connection->max_readahead, readdirplus_word(mount.options));
}

fuse_session* make_session(Mount& mount) {
  fuse_lowlevel_ops handlers = operations();
  handlers.init = init;
  // Only the kernel knows its dirty pages. So the kernel must answer, and treats everything as data.
  if (mount.options.cache == CacheMode::kWriteback) handlers.lseek = nullptr;
  const std::string text = mount_option_text(mount);
  std::array<const char*, 3> words{"spate", "-o", text.c_str()};
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(words.size()), const_cast<char**>(words.data()));
  fuse_session* session = fuse_session_new(&args, &handlers, sizeof(handlers), &mount);
  fuse_opt_free_args(&args);
  return session;
}

Result<void> answer_init(const Mount& mount, fuse_session* session) {
  KernelInit& init = kernel_init_of(mount.handover);
  fuse_buf buffer{};
  int size = 0;
  do {
    size = fuse_session_receive_buf(session, &buffer);
  } while (size == -EINTR);
  const std::unique_ptr<void, decltype(&std::free)> memory(buffer.mem, &std::free);
  if (size <= 0) return Error::told(Errc::kConnectionLost, "unmounted before it was served");
  if (static_cast<std::size_t>(size) > init.request.size())
    return Error::told(Errc::kProtocol, "the kernel's first message is too long");
  std::memcpy(init.request.data(), buffer.mem, static_cast<std::size_t>(size));
  init.size = static_cast<std::uint32_t>(size);
  answering_init = true;
  fuse_session_process_buf(session, &buffer);
  answering_init = false;
  init.done = 1;
  SPATE_LOG("fuse", info, "agreed past libfuse abilities={:#x}", init.abilities);
  return {};
}

Result<void> replay_init(const Mount& mount, fuse_session* session) {
  const KernelInit& init = kernel_init_of(mount.handover);
  SPATE_TRY(std::ignore, check_agreed(init));
  std::vector<std::byte> copy(init.request.begin(), init.request.begin() + init.size);
  fuse_buf buffer{};
  buffer.mem = copy.data();
  buffer.size = copy.size();
  swallowing = true;
  fuse_session_process_buf(session, &buffer);
  swallowing = false;
  fuse_out_header resend{};
  resend.len = sizeof(resend);
  resend.error = kNotifyResend;
  const bool asked = ::write(fuse_session_fd(session), &resend, sizeof(resend)) == static_cast<ssize_t>(sizeof(resend));
  SPATE_LOG("fuse", info, "goes on for an earlier process open_files={} resend={}", mount.files.size(),
            asked ? "yes" : "not known to the kernel");
  return {};
}

}  // namespace

std::string mount_option_text(const Mount& mount) {
  const MountOptions& options = mount.options;
  std::string text = "subtype=spate";
  if (checked_by_kernel(options)) text += ",default_permissions";
  if (options.read_only) text += ",ro";
  if (options.allow_other) text += ",allow_other";
  text += options.no_dev ? ",nodev" : ",dev";
  text += options.no_suid ? ",nosuid" : ",suid";
  if (options.no_exec) text += ",noexec";
  return text;
}

int reply_open(fuse_req_t request, const fuse_file_info& info) {
  answering_open = true;
  const int failed = fuse_reply_open(request, &info);
  answering_open = false;
  return failed;
}

int reply_create(fuse_req_t request, const fuse_entry_param& entry, const fuse_file_info& info) {
  answering_open = true;
  const int failed = fuse_reply_create(request, &entry, &info);
  answering_open = false;
  return failed;
}

bool can_resend(const Mount& mount) { return offers_resend(kernel_init_of(mount.handover)); }

Result<SessionPtr> take_device(Mount& mount, UniqueFd device) {
  SessionPtr session(make_session(mount));
  if (session == nullptr) return Error::told(Errc::kInvalidArgument, "libfuse refuses the mount options");
  fuse_custom_io io{};
  io.writev = write_device;
  io.read = read_device;
  const int failed = fuse_session_custom_io(session.get(), &io, device.get());
  if (failed != 0) return Error::told(Errc::kUnknown, "libfuse refuses /dev/fuse");
  device.release();  // the session closes the descriptor
  mount.session = session.get();
  const bool first = !mount.handover.inherited();
  SPATE_TRY(std::ignore, first ? answer_init(mount, session.get()) : replay_init(mount, session.get()));
  return session;
}

}  // namespace spate::fuse
