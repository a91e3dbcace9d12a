// SPDX-License-Identifier: Apache-2.0
// A FUSE file system that keeps names and sizes but no data. It shows the cost of the kernel and libfuse alone, with
// the sizes, timeouts and threads of Spate's mount with cache=none.
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr unsigned kMostBytes = 1U << 20U;

/// The names and sizes of all files and directories. Inode numbers are never reused; those of directories are odd.
/// Thread-safe.
class Files {
 public:
  /// The inode of a name; 0: there is no such name. With `make`, a missing name is created.
  fuse_ino_t find(const std::string& name, bool make, bool directory = false) {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    if (!make) return 0;
    last_ += 2;
    const fuse_ino_t inode = directory ? last_ + 1 : last_;
    names_.emplace(name, inode);
    return inode;
  }
  bool remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return names_.erase(name) != 0;
  }
  off_t size(fuse_ino_t inode) {
    const std::lock_guard lock(mutex_);
    return sizes_[inode];
  }
  void grow(fuse_ino_t inode, off_t end) {
    const std::lock_guard lock(mutex_);
    sizes_[inode] = std::max(sizes_[inode], end);
  }

 private:
  std::mutex mutex_;
  fuse_ino_t last_ = 0;
  std::unordered_map<std::string, fuse_ino_t> names_;
  std::unordered_map<fuse_ino_t, off_t> sizes_;
};

Files files;

static_assert(FUSE_ROOT_ID == 1);
bool is_directory(fuse_ino_t inode) { return inode % 2 == 1; }

struct stat attributes(fuse_ino_t inode) {
  struct stat st{};
  st.st_ino = inode;
  st.st_mode = is_directory(inode) ? S_IFDIR | 0755U : S_IFREG | 0644U;
  st.st_nlink = 1;
  st.st_size = is_directory(inode) ? 0 : files.size(inode);
  return st;
}

fuse_entry_param entry(fuse_ino_t inode) {
  fuse_entry_param e{};
  e.ino = inode;
  e.attr = attributes(inode);
  return e;
}

void init(void*, fuse_conn_info* connection) { connection->max_write = kMostBytes; }

/// The key of a name in the directory `parent`.
std::string entry_name(fuse_ino_t parent, const char* name) { return std::to_string(parent) + "/" + name; }

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const fuse_ino_t inode = files.find(entry_name(parent, name), false);
  if (inode == 0) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  const fuse_entry_param e = entry(inode);
  fuse_reply_entry(request, &e);
}

void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  const struct stat st = attributes(inode);
  fuse_reply_attr(request, &st, 0);
}

void setattr(fuse_req_t request, fuse_ino_t inode, struct stat*, int, fuse_file_info*) {
  const struct stat st = attributes(inode);
  fuse_reply_attr(request, &st, 0);
}

void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t, fuse_file_info* info) {
  info->direct_io = 1;
  const fuse_entry_param e = entry(files.find(entry_name(parent, name), true));
  fuse_reply_create(request, &e, info);
}

void mkdir(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t) {
  const fuse_entry_param e = entry(files.find(entry_name(parent, name), true, true));
  fuse_reply_entry(request, &e);
}

void open(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  info->direct_io = 1;
  fuse_reply_open(request, info);
}

void read(fuse_req_t request, fuse_ino_t, std::size_t size, off_t, fuse_file_info*) {
  static const std::vector<char> zeros(kMostBytes);
  fuse_reply_buf(request, zeros.data(), std::min<std::size_t>(size, kMostBytes));
}

void write(fuse_req_t request, fuse_ino_t inode, const char*, std::size_t size, off_t offset, fuse_file_info*) {
  files.grow(inode, offset + static_cast<off_t>(size));
  fuse_reply_write(request, size);
}

void unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  fuse_reply_err(request, files.remove(entry_name(parent, name)) ? 0 : ENOENT);
}

void forget(fuse_req_t request, fuse_ino_t, std::uint64_t) { fuse_reply_none(request); }

void done(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, 0); }

void sync(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) { fuse_reply_err(request, 0); }

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops{};
  ops.init = init;
  ops.lookup = lookup;
  ops.forget = forget;
  ops.getattr = getattr;
  ops.setattr = setattr;
  ops.create = create;
  ops.mkdir = mkdir;
  ops.open = open;
  ops.read = read;
  ops.write = write;
  ops.flush = done;
  ops.fsync = sync;
  ops.release = done;
  ops.unlink = unlink;
  return ops;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char name[] = "null_fuse";
  char* words[] = {name, nullptr};
  fuse_args args = FUSE_ARGS_INIT(1, words);
  const fuse_lowlevel_ops ops = operations();
  fuse_session* const session = fuse_session_new(&args, &ops, sizeof ops, nullptr);
  if (session == nullptr || fuse_set_signal_handlers(session) != 0 || fuse_session_mount(session, argv[1]) != 0)
    return 1;
  fuse_loop_config* const config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, 4);
  const int result = fuse_session_loop_mt(session, config);
  fuse_loop_cfg_destroy(config);
  fuse_session_unmount(session);
  fuse_remove_signal_handlers(session);
  fuse_session_destroy(session);
  return result == 0 ? 0 : 1;
}
