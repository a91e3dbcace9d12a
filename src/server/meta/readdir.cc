// SPDX-License-Identifier: Apache-2.0
// readdir: a page of a directory in the order of its names' hashes (docs/disk-meta.md, "Order of entries").
#include <algorithm>
#include <unordered_map>

#include "server/meta/access.h"
#include "server/meta/operations.h"
#include "server/meta/walk.h"

namespace spate::meta {
namespace {

using trove::ReadMode;

constexpr std::uint64_t kLastCookie = UINT64_MAX >> 1U;
constexpr std::size_t kMostReply = std::size_t{1} << 20U;
constexpr std::size_t kReplyOverhead = 128;  // reply header and what is no entry, generously
constexpr std::size_t kShortName = 8;        // bytes, to estimate how many entries fit: guess
constexpr std::size_t kMostAtOnce = 1024;

/// One page in the making.
struct Page {
  wire::ReaddirReply reply;
  std::size_t room = 0;         // bytes left
  std::size_t max_entries = 0;  // 0: no limit
  bool attributes = false;
  bool full = false;
  std::uint64_t after = 0;  // the last hash that is in the page
};

template <typename T>
std::size_t measure(const T& value) {
  Bytes bytes;
  wire::Writer writer(bytes);
  writer(value);
  return bytes.size();
}

/// On the wire. Of fixed size is all but the name and the layout.
std::size_t encoded_size(const wire::DirectoryEntry& entry) {
  static const std::size_t bare = measure(wire::DirectoryEntry{});
  static const std::size_t attributes = measure(Attributes{});
  std::size_t size = bare + entry.name.size();
  if (entry.attributes) size += attributes;
  if (entry.layout) size += measure(*entry.layout);
  return size;
}

/// How many entries to read for what is left of the page; at least two, so that the end of a group can be seen.
std::size_t batch_size(const Page& page) {
  wire::DirectoryEntry usual;
  if (page.attributes) usual.attributes.emplace();
  const std::size_t each = encoded_size(usual) + kShortName;
  std::size_t wanted = page.room / each + 1;
  if (page.max_entries != 0) wanted = std::min(wanted, page.max_entries - page.reply.entries.size() + 1);
  return std::clamp<std::size_t>(wanted, 2, kMostAtOnce);
}

Result<std::vector<wire::DirectoryEntry>> parse(const std::vector<trove::KeyValue>& found) {
  std::vector<wire::DirectoryEntry> entries;
  entries.reserve(found.size());
  for (const trove::KeyValue& item : found) {
    const auto key = parse_entry_key(item.key);
    if (!key) return Error(Errc::kCorrupt, "key of an entry");
    SPATE_TRY(const EntryRecord record, decode_record<EntryRecord>(item.value));
    wire::DirectoryEntry& entry = entries.emplace_back();
    entry.name = key->name;
    entry.cookie = key->hash;
    entry.handle = record.handle;
    entry.type = record.type;
  }
  return entries;
}

job::Task<Result<void>> add_attributes(Operation& operation, std::vector<wire::DirectoryEntry>& entries) {
  std::vector<Handle> handles;
  for (const wire::DirectoryEntry& entry : entries) handles.push_back(entry.handle);
  std::sort(handles.begin(), handles.end());
  handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
  std::vector<Bytes> keys;
  keys.reserve(handles.size());
  for (const Handle handle : handles) keys.push_back(inode_key(handle).bytes());
  const auto read = co_await operation.store().get_many(keys, ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return read.status;
  std::unordered_map<Handle, InodeRecord> inodes;
  for (const trove::KeyValue& item : read.entries) {
    SPATE_CO_TRY(InodeRecord inode, decode_record<InodeRecord>(item.value));
    const Handle handle = inode.handle();
    inodes.emplace(handle, std::move(inode));
  }
  for (wire::DirectoryEntry& entry : entries) {
    const auto found = inodes.find(entry.handle);
    if (found == inodes.end()) co_return Error(Errc::kCorrupt, "an entry without its inode");
    entry.attributes = found->second.attributes;
    if (!entry.attributes->size_known) entry.layout = found->second.layout;
  }
  co_return {};
}

/// Adds the group of equal hashes [begin, end) of `entries`; false when the page is full.
bool add_group(Page& page, std::vector<wire::DirectoryEntry>& entries, std::size_t begin, std::size_t end) {
  std::size_t bytes = 0;
  for (std::size_t i = begin; i < end; ++i) bytes += encoded_size(entries[i]);
  const std::size_t count = page.reply.entries.size();
  const bool too_many = page.max_entries != 0 && count != 0 && count + (end - begin) > page.max_entries;
  if (bytes > page.room || too_many) return false;
  page.room -= bytes;
  page.after = entries[begin].cookie;
  for (std::size_t i = begin; i < end; ++i) page.reply.entries.push_back(std::move(entries[i]));
  return true;
}

/// Adds the groups of one batch; the last one only when it is whole (`more`: the directory goes on). Returns whether
/// anything could be added or the page is full.
bool add_groups(Page& page, std::vector<wire::DirectoryEntry>& entries, bool more) {
  std::size_t begin = 0;
  while (begin < entries.size()) {
    std::size_t end = begin + 1;
    while (end < entries.size() && entries[end].cookie == entries[begin].cookie) ++end;
    if (end == entries.size() && more) return begin != 0;
    if (!add_group(page, entries, begin, end)) {
      page.full = true;
      return true;
    }
    begin = end;
  }
  return true;
}

job::Task<Result<void>> fill(Operation& operation, Handle directory, Page& page) {
  std::size_t limit = batch_size(page);
  while (!page.full && !page.reply.end) {
    trove::KeyRange range = entries_after(directory, page.after);
    range.mode = ReadMode::kSnapshot;
    range.limit = limit;
    const auto read = co_await operation.store().range(range);
    if (read.status != Errc::kOk) co_return read.status;
    SPATE_CO_TRY(auto entries, parse(read.entries));
    if (page.attributes) {
      SPATE_CO_TRY(std::ignore, co_await add_attributes(operation, entries));
    }
    if (!add_groups(page, entries, read.more)) {
      // All of the batch has one hash. Larger than any reply, it could never be listed: the loop ends.
      if (limit >= kMostReply / kShortName) co_return Error(Errc::kMessageTooBig, "too many names of one hash");
      limit *= 2;
      continue;
    }
    page.reply.end = !read.more && !page.full;
    limit = batch_size(page);
    if (page.max_entries != 0 && page.reply.entries.size() >= page.max_entries) break;
  }
  co_return {};
}

}  // namespace

Outcome<wire::ReaddirReply> readdir(Operation& operation, const wire::ReaddirRequest& request) {
  if (request.cookie > kLastCookie) co_return Error(Errc::kInvalidArgument, "a cookie that readdir never gave");
  SPATE_CO_TRY(const InodeRecord directory, co_await operation.inode(request.handle));
  if (!directory.is_directory()) co_return Errc::kNotDirectory;
  if (!may(operation.who(), directory, kWantRead)) co_return Errc::kPermissionDenied;
  const std::size_t posted = std::min<std::size_t>(operation.call().header.reply_room, kMostReply);
  Page page;
  page.room = posted > kReplyOverhead ? posted - kReplyOverhead : 0;
  page.max_entries = request.max_entries;
  page.after = request.cookie;
  // Who may list but not search sees names only, as by stat.
  page.attributes = request.attributes && may(operation.who(), directory, kWantExecute);
  page.reply.parent = directory.parent;
  SPATE_CO_TRY(std::ignore, co_await fill(operation, directory.handle(), page));
  if (page.full && page.reply.entries.empty()) co_return Error(Errc::kMessageTooBig, "no room for a single entry");
  co_return std::move(page.reply);
}

}  // namespace spate::meta
