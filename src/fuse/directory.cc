// SPDX-License-Identifier: Apache-2.0
// Requests on directories: opendir, readdir, releasedir, fsyncdir.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "fuse/local_pages.h"
#include "fuse/mount.h"
#include "fuse/queueing.h"

namespace spate::fuse {
namespace {

// Offsets of the two entries that the servers do not store. The cookies of others are hashes of 63 bits.
constexpr off_t kAfterDot = 1;
constexpr off_t kAfterDotDot = 2;

void opendir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  Mount& mount = this_mount();
  if (!checked_by_kernel(mount.options)) {
    const auto may = check_access(request, inode, R_OK);
    if (!may) return reply_error(request, may.error());
  }
  auto attributes = kept_attributes(node(inode));
  if (!attributes) attributes = run(request, [&](client::Client& c) { return stat_node(c, inode); });
  if (!*attributes) return reply_error(request, attributes->error());
  info->fh = mount.directories.add(Handle(inode), **attributes, CurrentRequest::of_this_thread().request_id());
  if (answer([&] { return fuse_reply_open(request, info); }) != 0) mount.directories.remove(info->fh);
}

void releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  this_mount().directories.remove(info->fh);
  answer([&] { return fuse_reply_err(request, 0); });
}

Result<wire::ReaddirReply> page_after(fuse_req_t request, fuse_ino_t inode, std::uint64_t cookie) {
  wire::ReaddirRequest read;
  read.handle = Handle(inode);
  read.cookie = cookie;
  return run(request, [&](client::Client& c) { return c.readdir(read); });
}

/// A small cookie without a page is a local one, of an earlier process or from before a rewind.
Result<void> load(fuse_req_t request, fuse_ino_t inode, OpenDirectory& directory, std::uint64_t cookie) {
  const bool may_be_local =
      this_mount().delegates && cookie < client::kLocalCookies && (!directory.loaded || directory.local);
  auto local = may_be_local ? list_queued(this_mount(), Handle(inode)) : std::nullopt;
  directory.local = local.has_value() || (may_be_local && cookie != 0);
  if (local) {
    directory.page = *std::move(local);
  } else if (directory.local) {
    const auto pages = [&](std::uint64_t place) { return page_after(request, inode, place); };
    SPATE_TRY(directory.page, page_after_local(pages, cookie, client::LocalAnswers::kMostListed));
  } else {
    SPATE_TRY(directory.page, page_after(request, inode, cookie));
  }
  directory.page_begins = local ? 0 : cookie;
  directory.loaded = true;
  return {};
}

/// Index of the first entry of the page after `cookie`. None: the page does not have that place.
std::optional<std::size_t> position(const OpenDirectory& directory, std::uint64_t cookie) {
  if (!directory.loaded) return std::nullopt;
  if (cookie == directory.page_begins) return 0;
  const auto& entries = directory.page.entries;
  if (directory.local) {
    const auto behind = [](std::uint64_t place, const auto& entry) { return place < entry.cookie; };
    const auto next = std::upper_bound(entries.begin(), entries.end(), cookie, behind);
    if (cookie < directory.page_begins || (next == entries.end() && !directory.page.end)) return std::nullopt;
    return static_cast<std::size_t>(next - entries.begin());
  }
  const auto last = std::find_if(entries.rbegin(), entries.rend(), [&](const auto& e) { return e.cookie == cookie; });
  if (last == entries.rend()) return std::nullopt;
  const auto next = static_cast<std::size_t>(entries.rend() - last);
  if (next == entries.size() && !directory.page.end) return std::nullopt;
  return next;
}

/// The kernel's buffer for one request.
class Listing {
 public:
  Listing(fuse_req_t request, std::size_t room) : request_(request), buffer_(room) {}

  bool add(const char* name, std::uint64_t inode, FileType type, off_t next) {
    Attributes attributes;
    attributes.handle = Handle(inode);
    attributes.type = type;
    const struct stat entry = to_stat(attributes);
    const std::size_t size =
        fuse_add_direntry(request_, buffer_.data() + used_, buffer_.size() - used_, name, &entry, next);
    if (size > buffer_.size() - used_) return false;
    used_ += size;
    return true;
  }
  std::size_t used() const { return used_; }
  void cut(std::size_t used) { used_ = used; }
  void reply() {
    answer([&] { return fuse_reply_buf(request_, buffer_.data(), used_); });
  }

 private:
  fuse_req_t request_;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
};

/// Adds entries of the page from `first` on. Entries with one cookie stay together, because a reader continues after a
/// cookie. False: the buffer is full.
bool add_page(Listing& listing, const wire::ReaddirReply& page, std::size_t first) {
  std::size_t group = listing.used();
  for (std::size_t i = first; i < page.entries.size(); ++i) {
    const wire::DirectoryEntry& entry = page.entries[i];
    if (i > first && entry.cookie != page.entries[i - 1].cookie) group = listing.used();
    if (!listing.add(entry.name.c_str(), entry.handle.value, entry.type, static_cast<off_t>(entry.cookie))) {
      listing.cut(group);
      return false;
    }
  }
  return true;
}

/// Adds the entries after `cookie` until the buffer is full or the directory ends.
Result<void> add_entries(fuse_req_t request, fuse_ino_t inode, OpenDirectory& directory, Listing& listing,
                         std::uint64_t cookie) {
  while (true) {
    auto first = position(directory, cookie);
    if (!first) {
      SPATE_TRY(std::ignore, load(request, inode, directory, cookie));
      first = directory.local ? position(directory, cookie) : 0;
    }
    const wire::ReaddirReply& page = directory.page;
    if (!add_page(listing, page, *first) || page.end || page.entries.empty()) return {};
    cookie = page.entries.back().cookie;
  }
}

void readdir(fuse_req_t request, fuse_ino_t inode, std::size_t room, off_t offset, fuse_file_info* info) {
  constexpr std::size_t kMostBytes = 1U << 20U;
  const std::shared_ptr<OpenDirectory> kept = this_mount().directories.find(info->fh);
  OpenDirectory& directory = *kept;
  const std::lock_guard lock(directory.mutex);  // must be released before `kept` is destroyed
  Listing listing(request, std::min(room, kMostBytes));
  if (offset == 0) {
    directory.loaded = false;  // after a rewind the reader sees the present entries
    if (listing.add(".", inode, FileType::kDirectory, kAfterDot)) offset = kAfterDot;
  }
  if (offset == kAfterDot) {
    if (!directory.loaded) {
      const auto loaded = load(request, inode, directory, 0);
      if (!loaded) return reply_error(request, loaded.error());
    }
    if (listing.add("..", directory.page.parent.value, FileType::kDirectory, kAfterDotDot)) offset = kAfterDotDot;
  }
  if (offset >= kAfterDotDot) {
    const auto added = add_entries(request, inode, directory, listing,
                                   offset == kAfterDotDot ? 0 : static_cast<std::uint64_t>(offset));
    if (!added && listing.used() == 0) return reply_error(request, added.error());
  }
  listing.reply();
}

void fsyncdir(fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
  reply_done(request, run(request, [](client::Client& c) { return c.sync(); }));
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& operations) {
  operations.opendir = opendir;
  operations.readdir = readdir;
  operations.releasedir = releasedir;
  operations.fsyncdir = fsyncdir;
}

}  // namespace spate::fuse
