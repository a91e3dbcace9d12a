// SPDX-License-Identifier: Apache-2.0
#include "fuse/mount.h"

#include <sys/stat.h>

#include "log/log.h"
#include "posix/convert.h"
#include "posix/errno.h"

namespace spate::fuse {
namespace {

// The buffer size that programs use. It is large enough for one request to each of a few servers.
constexpr std::uint64_t kPreferredBytes = 256 * 1024;

fuse_lowlevel_ops make_operations() {
  fuse_lowlevel_ops all{};
  add_name_operations(all);
  add_attribute_operations(all);
  add_data_operations(all);
  add_write_operations(all);
  add_release_operations(all);
  add_directory_operations(all);
  add_lock_operations(all);
  return all;
}

bool worth_a_line(Errc code) {
  return code == Errc::kTimeout || code == Errc::kUnreachable || code == Errc::kConnectionLost ||
         code == Errc::kLostWrite || code == Errc::kCorrupt || code == Errc::kProtocol ||
         code == Errc::kUnauthenticated;
}

}  // namespace

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops all = make_operations();
  return all;
}

wire::NamePath node(fuse_ino_t inode) { return wire::NamePath{Handle(inode), {}, 0}; }

wire::NamePath child(fuse_ino_t parent, const char* name) { return wire::NamePath{Handle(parent), name, 0}; }

struct stat to_stat(const Attributes& attributes) { return posix::to_stat(attributes, kPreferredBytes); }

job::Task<Result<std::unique_ptr<client::File>>> open_created(Mount& mount, client::Client& client, OpenFile& open) {
  SPATE_CO_TRY(auto file, co_await client.queued_files().open(open.handle, open.flags));
  if (!open.moves_atime) file->forget_reads();
  if (open.record != nullptr) file->keep_in(*open.record);
  if (mount.options.cache != CacheMode::kNone) std::ignore = co_await mount.pages.opened(*file);
  if (open.pages_differ) mount.pages.spoil(open.handle);
  co_return std::move(file);
}

Result<std::shared_ptr<OpenFile>> open_file(fuse_req_t request, std::uint64_t number) {
  Mount& mount = this_mount();  // the executor may run on a thread that has had no request yet
  auto open = mount.files.find(number);
  if (open == nullptr) return Errc::kBadDescriptor;
  const std::lock_guard lock(open->opening);
  if (open->file == nullptr && open->queued) {
    SPATE_TRY(open->file, run(request, [&](client::Client& c) { return open_created(mount, c, *open); }));
  } else if (open->file == nullptr) {
    const auto make = [&](client::Client& c) { return c.open_again(*open->record, open->known_later); };
    SPATE_TRY(open->file, run(request, make));
  }
  return open;
}

fuse_entry_param to_entry(const Attributes& attributes) {
  fuse_entry_param entry{};  // with timeouts of 0 the kernel asks again, and so sees changes by other clients
  entry.ino = attributes.handle.value;
  entry.attr = to_stat(attributes);
  return entry;
}

double name_timeout(Mount& mount, const wire::NamePath& where, Handle object) {
  return seconds_of(mount.process.client().cluster().attributes().copy_name(where.start, where.path, object));
}

void let_keep_briefly(Mount& mount, fuse_entry_param& entry) {
  if (mount.brief_copies == nullptr) return;
  // The kernel needs those of directories to check rights. To take them back at each change in one costs more than they
  // save otherwise.
  if (S_ISDIR(entry.attr.st_mode) && !checked_by_kernel(mount.options)) return;
  const auto copy = mount.process.client().cluster().attributes().copy_attributes(Handle(entry.ino));
  if (!copy) return;
  entry.attr = to_stat(copy->attributes);
  entry.attr_timeout = BriefCopies::kTimeout;
}

/// The kernel never keeps the attributes of this answer for long, because they might make a new inode after the kernel
/// was told to drop its copy of the object. See getattr().
void reply_entry(Mount& mount, fuse_req_t request, const wire::NamePath& where, const Result<Attributes>& found) {
  if (!found) return reply_error(request, found.error());
  if (mount.names_files()) mount.names.note(found->handle, where.start, where.path);
  fuse_entry_param entry = to_entry(*found);
  let_keep_briefly(mount, entry);
  entry.entry_timeout = name_timeout(mount, where, found->handle);
  answer([&] { return fuse_reply_entry(request, &entry); });
}

void reply_error(fuse_req_t request, const Error& error) {
  if (worth_a_line(error.code())) SPATE_LOG("fuse", warn, "operation failed error={}", error.message());
  answer([&] { return fuse_reply_err(request, posix::to_errno(error.code())); });
}

void reply_done(fuse_req_t request, const Result<void>& result) {
  if (!result) return reply_error(request, result.error());
  answer([&] { return fuse_reply_err(request, 0); });
}

wire::NewAttributes new_attributes(fuse_req_t request, mode_t mode) {
  wire::NewAttributes attributes;
  attributes.mode = mode & 07777U;
  const std::uint32_t umask = fuse_req_ctx(request)->umask;
  attributes.mode |= (umask & 0777U) << wire::NewAttributes::kUmaskShift;
  const CurrentRequest::Caller& caller = CurrentRequest::of_this_thread().caller();
  const Credential& own = this_mount().credential;
  if (own.uid == 0 && (caller.uid != own.uid || caller.gid != own.gid)) {
    attributes.mode |= wire::NewAttributes::kOnBehalf;
    attributes.uid = caller.uid;
    attributes.gid = caller.gid;
  }
  return attributes;
}

}  // namespace spate::fuse
