// SPDX-License-Identifier: Apache-2.0
// readdir, list_lease: a page of a directory in the order of its names' hashes (docs/disk-meta.md, "Order of entries").
#include <algorithm>
#include <unordered_set>

#include "job/gate.h"
#include "server/meta/core/core.h"
#include "server/meta/core/walk.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/sizes.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

using trove::ReadMode;

constexpr std::uint64_t kLastCookie = UINT64_MAX >> 1U;
constexpr std::size_t kMostReply = std::size_t{1} << 20U;
constexpr std::size_t kReplyOverhead = 128;  // reply header and the fixed parts of a page, rounded up
constexpr std::size_t kShortName = 8;        // bytes of a name, to estimate how many entries fit: guess
constexpr std::size_t kMostAtOnce = 2048;

/// What a listing returns for an entry beside its name.
enum class Detail : std::uint8_t {
  kNone,
  kAttributes,
  kObject,  // everything that a look-up would return
};

/// A page while it is filled.
struct Page {
  wire::ReaddirReply reply;
  std::vector<std::string> targets;  // of its symbolic links, with Detail::kObject
  std::size_t room = 0;              // bytes left
  std::size_t max_entries = 0;       // 0: no limit
  Detail detail = Detail::kNone;
  bool full = false;
};

template <typename T>
std::size_t measure(const T& value) {
  Bytes bytes;
  wire::encode_body(value, bytes);
  return bytes.size();
}

/// Size on the wire. Only the name and the layout vary.
std::size_t encoded_size(const wire::DirectoryEntry& entry) {
  static const std::size_t bare = measure(wire::DirectoryEntry{});
  static const std::size_t attributes = measure(Attributes{});
  std::size_t size = bare + entry.name.size();
  if (entry.attributes) size += attributes;
  if (entry.layout) size += measure(*entry.layout);
  return size;
}

/// The room left in a page.
struct Room {
  std::size_t bytes = 0;
  std::size_t entries = 0;  // how many more entries are allowed
};

/// How many entries to read for it; at least two, to detect the end of a group.
std::size_t batch_size(const Room& room, Detail detail) {
  wire::DirectoryEntry usual;
  if (detail != Detail::kNone) usual.attributes.emplace();
  const std::size_t each = encoded_size(usual) + kShortName;
  const std::size_t wanted = std::min(room.bytes / each, room.entries) + 1;
  return std::clamp<std::size_t>(wanted, 2, kMostAtOnce);
}

/// Names from one read, in whole groups of equal hashes, and their inodes.
struct Batch {
  std::vector<wire::DirectoryEntry> entries;
  std::vector<Handle> handles;          // of the entries, ascending, each once
  std::vector<trove::KeyValue> inodes;  // of the handles, in their order
  std::unordered_set<Handle> outside;   // objects that the caller, whose key is confined to a directory, may not use
  std::vector<std::string> targets;     // one for each entry, with Detail::kObject
  bool more = false;                    // the directory has more entries
};

Result<std::vector<wire::DirectoryEntry>> parse(const std::vector<trove::KeyValue>& found) {
  std::vector<wire::DirectoryEntry> entries;
  entries.reserve(found.size());
  for (const trove::KeyValue& item : found) {
    const auto key = parse_entry_key(item.key);
    if (!key) return Error(Errc::kCorrupt, "a directory entry has an invalid key in the store");
    SPATE_TRY(const EntryRecord record, decode_record<EntryRecord>(item.value));
    wire::DirectoryEntry& entry = entries.emplace_back();
    entry.name = key->name;
    entry.cookie = key->hash;
    entry.handle = record.handle;
    entry.type = record.type;
  }
  return entries;
}

job::Task<Result<void>> read_inodes(Operation& operation, Batch& batch) {
  std::vector<Handle>& handles = batch.handles;
  handles.reserve(batch.entries.size());
  for (const wire::DirectoryEntry& entry : batch.entries) {
    handles.push_back(entry.handle);
    operation.met().meet(entry.handle);
  }
  if (!operation.met().empty()) co_return Errc::kConflict;  // all of them are recalled together
  std::sort(handles.begin(), handles.end());
  handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
  std::vector<Bytes> keys;
  keys.reserve(handles.size());
  for (const Handle handle : handles) keys.push_back(inode_key(handle).bytes());
  auto read = co_await operation.store().get_many(keys, ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return read.status;
  if (read.entries.size() != handles.size()) co_return Error(Errc::kCorrupt, "an entry without its inode");
  batch.inodes = std::move(read.entries);
  co_return {};
}

/// Finds the objects that are outside though they have a name in this directory: hard links whose parent is elsewhere.
job::Task<Result<void>> find_outside(Operation& operation, Handle directory, Batch& batch) {
  Confinement* const confinement = operation.confinement();
  if (confinement == nullptr) co_return {};
  for (const trove::KeyValue& item : batch.inodes) {
    SPATE_CO_TRY(const InodeRecord inode, decode_record<InodeRecord>(item.value));
    if (inode.parent == directory) continue;
    const auto admitted = co_await confinement->admit(operation.store(), inode, Reach::kInside);
    if (admitted.code() == Errc::kPermissionDenied) {
      batch.outside.insert(inode.handle());
    } else if (!admitted) {
      co_return admitted;
    }
  }
  co_return {};
}

/// Reads the groups after hash `after`. A group that does not end within `limit` entries is left to the next batch. If
/// it is the only one, more entries are read.
job::Task<Result<Batch>> read_names(Operation& operation, Handle directory, std::uint64_t after, std::size_t limit) {
  for (;; limit *= 2) {
    trove::KeyRange range = entries_after(directory, after);
    range.mode = ReadMode::kSnapshot;
    range.limit = limit;
    const auto read = co_await operation.store().range(range);
    if (read.status != Errc::kOk) co_return read.status;
    Batch batch;
    SPATE_CO_TRY(batch.entries, parse(read.entries));
    batch.more = read.more;
    if (!batch.more) co_return batch;
    const std::uint64_t last = batch.entries.back().cookie;
    while (!batch.entries.empty() && batch.entries.back().cookie == last) batch.entries.pop_back();
    if (!batch.entries.empty()) co_return batch;
    // All entries have the same hash. A group larger than any reply could never be listed.
    if (limit >= kMostReply / kShortName) co_return Error::told(Errc::kMessageTooBig, "too many names of one hash");
  }
}

/// The next batch of a page, while it is read.
struct Next {
  Handle directory;
  std::uint64_t after = 0;
  std::size_t limit = 0;
  Detail detail = Detail::kNone;
};

job::Task<void> read_batch(Operation& operation, Next next, Result<Batch>& out) {
  out = co_await read_names(operation, next.directory, next.after, next.limit);
  if (!out || next.detail == Detail::kNone) co_return;
  auto read = co_await read_inodes(operation, *out);
  if (read) read = co_await find_outside(operation, next.directory, *out);
  if (!read) out = std::move(read).error();
}

Result<void> add_details(Operation& operation, Batch& batch, Detail detail) {
  for (wire::DirectoryEntry& entry : batch.entries) {
    if (batch.outside.contains(entry.handle)) {
      if (detail == Detail::kObject) batch.targets.emplace_back();
      continue;
    }
    const auto place = std::lower_bound(batch.handles.begin(), batch.handles.end(), entry.handle);
    const trove::KeyValue& item = batch.inodes[static_cast<std::size_t>(place - batch.handles.begin())];
    SPATE_TRY(InodeRecord inode, decode_record<InodeRecord>(item.value));
    entry.attributes = inode.attributes;
    if (size_in_doubt(operation.core(), inode)) entry.attributes->size_known = false;
    // A look-up asks the datafiles whether the bits still hold.
    if (lends_in_doubt(inode)) entry.attributes->mode &= ~(kSetUid | kSetGid);
    const bool wanted = detail == Detail::kObject || !entry.attributes->size_known;
    std::optional<Layout>& layout = inode.layout;
    if (wanted && layout && check_knows(*operation.call().peer, *layout)) entry.layout = std::move(layout);
    if (detail == Detail::kObject) batch.targets.push_back(std::move(inode.target));
  }
  return {};
}

/// Includes its target, and its number among the entries that may not be kept.
std::size_t encoded_size(const Page& page, const Batch& batch, std::size_t place) {
  const std::size_t size = encoded_size(batch.entries[place]);
  if (page.detail != Detail::kObject) return size;
  return size + sizeof(std::uint32_t) + sizeof(std::uint32_t) + batch.targets[place].size();
}

/// Adds the group of equal hashes [begin, end) of the batch. False: the page is full.
bool add_group(Page& page, Batch& batch, std::size_t begin, std::size_t end) {
  std::size_t bytes = 0;
  for (std::size_t i = begin; i < end; ++i) bytes += encoded_size(page, batch, i);
  const std::size_t count = page.reply.entries.size();
  const bool too_many = page.max_entries != 0 && count != 0 && count + (end - begin) > page.max_entries;
  if (bytes > page.room || too_many) return false;
  page.room -= bytes;
  for (std::size_t i = begin; i < end; ++i) {
    const bool link = batch.entries[i].type == FileType::kSymlink;
    if (link && page.detail == Detail::kObject) page.targets.push_back(std::move(batch.targets[i]));
    page.reply.entries.push_back(std::move(batch.entries[i]));
  }
  return true;
}

/// Adds the groups of one batch until the page is full.
Result<void> add_batch(Operation& operation, Page& page, Batch& batch) {
  if (page.detail != Detail::kNone) {
    SPATE_TRY(std::ignore, add_details(operation, batch, page.detail));
  }
  const std::vector<wire::DirectoryEntry>& entries = batch.entries;
  std::size_t begin = 0;
  while (begin < entries.size() && !page.full) {
    std::size_t end = begin + 1;
    while (end < entries.size() && entries[end].cookie == entries[begin].cookie) ++end;
    page.full = !add_group(page, batch, begin, end);
    begin = end;
  }
  page.reply.end = !batch.more && !page.full;
  page.full = page.full || (page.max_entries != 0 && page.reply.entries.size() >= page.max_entries);
  return {};
}

/// The room that remains in the page after these entries.
Room room_beside(const Page& page, const std::vector<wire::DirectoryEntry>& entries) {
  wire::DirectoryEntry usual;
  if (page.detail != Detail::kNone) usual.attributes.emplace();
  const std::size_t each = encoded_size(usual);
  std::size_t bytes = 0;
  for (const wire::DirectoryEntry& entry : entries) bytes += each + entry.name.size();
  const std::size_t count = page.reply.entries.size() + entries.size();
  const std::size_t most = page.max_entries == 0 ? SIZE_MAX : page.max_entries;
  return {page.room > bytes ? page.room - bytes : 0, most > count ? most - count : 0};
}

/// Reads the next batch while it adds the present one: the store's threads have as much work as this thread.
job::Task<Result<void>> fill(Operation& operation, Handle directory, std::uint64_t after, Page& page) {
  Result<Batch> batch = Batch{};
  Room room = room_beside(page, {});
  const Next first{directory, after, batch_size(room, page.detail), page.detail};
  co_await read_batch(operation, first, batch);
  for (;;) {
    if (!batch) co_return std::move(batch).error();
    room = room_beside(page, batch->entries);
    const bool ahead = batch->more && room.bytes > 0 && room.entries > 0;
    Result<Batch> next = Batch{};
    job::Gate reading(operation.core().executor());
    if (ahead) {
      const Next wanted{directory, batch->entries.back().cookie, batch_size(room, page.detail), page.detail};
      job::spawn(reading, read_batch(operation, wanted, next));
    }
    const auto added = add_batch(operation, page, *batch);
    co_await reading.close();
    if (!added) co_return added;
    if (!ahead || page.full) co_return {};
    batch = std::move(next);
  }
}

/// The listing that is asked for.
struct Wanted {
  Handle handle;
  std::uint64_t cookie = 0;
  std::uint32_t max_entries = 0;
  Detail detail = Detail::kNone;
};

job::Task<Result<Page>> list(Operation& operation, Wanted wanted) {
  if (wanted.cookie > kLastCookie) co_return Error::told(Errc::kInvalidArgument, "a cookie that readdir never gave");
  SPATE_CO_TRY(const InodeRecord directory, co_await operation.inode(wanted.handle));
  if (!directory.is_directory()) co_return Errc::kNotDirectory;
  if (!may(operation.who(), directory, kWantRead)) co_return Errc::kPermissionDenied;
  const std::size_t posted = std::min<std::size_t>(operation.call().header.reply_room, kMostReply);
  Page page;
  page.room = posted > kReplyOverhead ? posted - kReplyOverhead : 0;
  page.max_entries = wanted.max_entries;
  // A caller that may list but not search the directory gets only the names, as with stat.
  if (may(operation.who(), directory, kWantExecute)) page.detail = wanted.detail;
  page.reply.parent = directory.parent;
  SPATE_CO_TRY(std::ignore, co_await fill(operation, directory.handle(), wanted.cookie, page));
  if (page.full && page.reply.entries.empty())
    co_return Error::told(Errc::kMessageTooBig, "no room for a single entry");
  co_return page;
}

}  // namespace

Outcome<wire::ReaddirReply> readdir(Operation& operation, const wire::ReaddirRequest& request) {
  const Detail detail = request.attributes ? Detail::kAttributes : Detail::kNone;
  const Wanted wanted{request.handle, request.cookie, request.max_entries, detail};
  SPATE_CO_TRY(Page page, co_await list(operation, wanted));
  co_return std::move(page.reply);
}

Outcome<wire::ListLeaseReply> list_objects(Operation& operation, const wire::ListLeaseRequest& request) {
  const Wanted wanted{request.handle, request.cookie, request.max_entries, Detail::kObject};
  SPATE_CO_TRY(Page page, co_await list(operation, wanted));
  wire::ListLeaseReply reply;
  reply.page = std::move(page.reply);
  reply.targets = std::move(page.targets);
  co_return reply;
}

Outcome<wire::ListLeaseReply> list_lease(Operation& operation, const wire::ListLeaseRequest& request) {
  Leases* const leases = operation.core().parts().leases;
  if (leases == nullptr) {
    auto page = co_await list_objects(operation, request);
    co_return page;
  }
  auto page = co_await leases->list(operation, request);
  co_return page;
}

}  // namespace spate::meta
