// SPDX-License-Identifier: Apache-2.0
// Requests on names: look-up, making, removing, renaming.
#include "fuse/mount.h"
#include "fuse/queueing.h"
#include "posix/convert.h"

namespace spate::fuse {
namespace {

/// Replies that a name does not exist, which the kernel keeps if it may.
void reply_lookup(Mount& mount, fuse_req_t request, const wire::NamePath& where, const Result<Attributes>& found) {
  fuse_entry_param none{};
  if (found.code() == Errc::kNotFound) none.entry_timeout = name_timeout(mount, where, Handle());
  if (none.entry_timeout == 0) return reply_entry(mount, request, where, found);
  answer([&] { return fuse_reply_entry(request, &none); });
}

/// The kernel asks for "." of any node, and for ".." of directories, when a program opens a file handle whose names the
/// kernel does not know (open_by_handle_at, an NFS server). It keeps neither answer.
void lookup_node(fuse_req_t request, const wire::NamePath& where) {
  const auto found = run(request, [&](client::Client& c) { return stat_at(c, where); });
  if (!found) return reply_error(request, found.error());
  const fuse_entry_param entry = to_entry(*found);
  answer([&] { return fuse_reply_entry(request, &entry); });
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  Mount& mount = this_mount();
  const std::string_view asked = name;
  if (asked == ".") return lookup_node(request, node(parent));
  const wire::NamePath where = child(parent, name);
  if (asked == "..") return lookup_node(request, where);
  if (const auto kept = kept_attributes(where)) return reply_lookup(mount, request, where, *kept);
  const auto found = run(request, [&](client::Client& c) { return stat_at(c, where); });
  reply_lookup(mount, request, where, found);
}

// Nodes have no state: see Mount.
void forget(fuse_req_t request, fuse_ino_t, std::uint64_t) { fuse_reply_none(request); }
void forget_multi(fuse_req_t request, std::size_t, fuse_forget_data*) { fuse_reply_none(request); }

void readlink(fuse_req_t request, fuse_ino_t inode) {
  const auto found = run(request, [&](client::Client& c) { return c.lookup(node(inode)); });
  if (!found) return reply_error(request, found.error());
  answer([&] { return fuse_reply_readlink(request, found->target.c_str()); });
}

void mknod(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  const auto type = posix::type_of_mode(mode);
  if (!type) return reply_error(request, type.error());
  wire::CreateRequest create;
  create.where = child(parent, name);
  create.type = *type;
  create.device = device;
  create.attributes = new_attributes(request, mode);
  create.open_flags = wire::kOpenExclusive;
  Mount& mount = this_mount();
  reply_entry(mount, request, create.where,
              change_names(request, [&](client::Client& c) { return c.make_node(create); }));
}

void mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  Mount& mount = this_mount();
  const wire::NamePath where = child(parent, name);
  const wire::NewAttributes attributes = new_attributes(request, mode);
  auto made = made_before(mount, request, wire::Op::kMkdir);
  if (!made) made = make_queued(mount, {where, FileType::kDirectory, attributes, {}});
  if (!made) made = change_names(request, [&](client::Client& c) { return c.mkdir(where, attributes); });
  reply_entry(mount, request, where, *made);
}

void symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  Mount& mount = this_mount();
  const wire::NamePath where = child(parent, name);
  const wire::NewAttributes attributes = new_attributes(request, 0777);
  auto made = made_before(mount, request, wire::Op::kSymlink);
  if (!made) made = make_queued(mount, {where, FileType::kSymlink, attributes, target});
  if (!made) made = change_names(request, [&](client::Client& c) { return c.symlink(where, target, attributes); });
  reply_entry(mount, request, where, *made);
}

/// The kernel takes the size of the answer for the file's, even while programs write to it.
void link(fuse_req_t request, fuse_ino_t inode, fuse_ino_t parent, const char* name) {
  Mount& mount = this_mount();
  const wire::NamePath where = child(parent, name);
  auto linked = change_names(request, [&](client::Client& c) { return c.link(node(inode), where); });
  if (linked && linked->type == FileType::kRegular && !linked->size_known) {
    const auto now = run(request, [&](client::Client& c) { return c.stat(node(inode)); });
    if (now) linked = now->attributes;
  }
  reply_entry(mount, request, where, linked);
}

void unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  auto removed = remove_queued(this_mount(), child(parent, name), wire::Op::kUnlink);
  if (!removed) removed = change_names(request, [&](client::Client& c) { return c.unlink(child(parent, name)); });
  reply_done(request, *removed);
}

void rmdir(fuse_req_t request, fuse_ino_t parent, const char* name) {
  auto removed = remove_queued(this_mount(), child(parent, name), wire::Op::kRmdir);
  if (!removed) removed = change_names(request, [&](client::Client& c) { return c.rmdir(child(parent, name)); });
  reply_done(request, *removed);
}

static_assert(wire::kRenameNoReplace == 1 && wire::kRenameExchange == 2, "renameat2's own bits");

void rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t to_parent, const char* to_name,
            unsigned flags) {
  if ((flags & ~3U) != 0) {
    answer([&] { return fuse_reply_err(request, EINVAL); });
    return;
  }
  Mount& mount = this_mount();
  const auto before = mount.names_files() ? kept_attributes(child(parent, name)) : std::nullopt;
  const auto renamed = change_names(request, [&](client::Client& c) {
    return c.rename(child(parent, name), child(to_parent, to_name), static_cast<std::uint8_t>(flags));
  });
  if (renamed && before && *before) mount.names.note((*before)->handle, Handle(to_parent), to_name);
  reply_done(request, renamed);
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& operations) {
  operations.lookup = lookup;
  operations.forget = forget;
  operations.forget_multi = forget_multi;
  operations.readlink = readlink;
  operations.mknod = mknod;
  operations.mkdir = mkdir;
  operations.symlink = symlink;
  operations.link = link;
  operations.unlink = unlink;
  operations.rmdir = rmdir;
  operations.rename = rename;
}

}  // namespace spate::fuse
