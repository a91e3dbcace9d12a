// SPDX-License-Identifier: Apache-2.0
// Functions that the scans and the repairs share.
#include "server/meta/check/check.h"

#include <algorithm>

#include "job/range_read.h"
#include "server/meta/core/core.h"
#include "server/meta/core/walk.h"
#include "server/meta/store/keys.h"
#include "trove/key_order.h"

namespace spate::meta {
namespace {

constexpr std::uint32_t kLargeRecords = 64;  // a page of records that may be of 64 KiB each
constexpr std::size_t kMaxKnownGood = 65536;
/// Most entries examined to find one path. The path is only for people to read.
constexpr std::size_t kMaxLookedAt = 200'000;

trove::ReadMode mode_of(const Operation& operation) {
  return operation.kind() == Operation::Kind::kRead ? trove::ReadMode::kSnapshot : trove::ReadMode::kChecked;
}

InodeState state_of(Handle handle, ByteView value) {
  auto record = decode_record<InodeRecord>(value);
  if (!record || record->handle() != handle) return {InodeState::Status::kUnreadable, {}};
  return {InodeState::Status::kReadable, *std::move(record)};
}

}  // namespace

job::Task<Result<InodeState>> inode_state(Operation& operation, Handle handle) {
  const StoreKey key = inode_key(handle);
  const auto read = co_await operation.store().get(key, mode_of(operation));
  if (read.status != Errc::kOk) co_return read.status;
  if (!read.value) co_return InodeState();
  co_return state_of(handle, *read.value);
}

job::Task<Result<InodeStates>> inode_states(Operation& operation, std::vector<Handle> handles) {
  std::sort(handles.begin(), handles.end());
  handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
  std::vector<Bytes> keys;
  keys.reserve(handles.size());
  for (const Handle handle : handles) keys.push_back(inode_key(handle).bytes());
  const auto read = co_await operation.store().get_many(keys, trove::ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return read.status;
  InodeStates states;
  states.reserve(handles.size());
  for (const Handle handle : handles) states.try_emplace(handle);
  for (const trove::KeyValue& item : read.entries) {
    const Handle handle(parse_id_key(item.key).value_or(0));
    states[handle] = state_of(handle, item.value);
  }
  co_return states;
}

job::Task<Result<CounterRecord>> given_handles(Operation& operation) {
  SPATE_CO_TRY(auto record,
               co_await operation.get<CounterRecord>(global_key("next_handle"), trove::ReadMode::kSnapshot));
  co_return record ? *std::move(record) : CounterRecord();
}

bool is_given(const Operation& operation, const CounterRecord& given, Handle handle) {
  const std::uint16_t shard = const_cast<Operation&>(operation).core().options().shard;
  return handle == kRootHandle || (shard_of(handle) == shard && given.is_given(number_of(handle)));
}

job::Task<Result<trove::KeyvalCompletion>> read_page(Operation& operation, trove::KeyRange range, std::size_t limit) {
  range.limit = limit;
  range.mode = trove::ReadMode::kSnapshot;
  auto read = co_await operation.store().range(range);
  if (read.status != Errc::kOk) co_return read.status;
  co_return read;
}

void go_on(trove::KeyRange& range, const trove::KeyvalCompletion& page) {
  range.begin = trove::key_after(page.entries.back().key);
}

job::Task<Result<bool>> heads_a_loop(Operation& operation, const InodeRecord& directory,
                                     std::unordered_map<Handle, bool>& good) {
  if (good.size() > kMaxKnownGood) good.clear();
  std::unordered_map<Handle, bool> passed;
  std::vector<Handle> chain;
  Handle parent = directory.parent;
  for (Handle at = directory.handle(); at != kRootHandle && !good.contains(at); at = parent) {
    if (!passed.try_emplace(at).second) {
      // The chain has come round. The loop begins where the chain first met it.
      const auto begin = std::find(chain.begin(), chain.end(), at);
      co_return *std::min_element(begin, chain.end()) == directory.handle();
    }
    chain.push_back(at);
    if (chain.size() > kDeepest) co_return false;
    if (at == directory.handle()) continue;
    SPATE_CO_TRY(const InodeState ancestor, co_await inode_state(operation, at));
    if (!ancestor.directory()) co_return false;
    parent = ancestor.record.parent;
  }
  for (const Handle handle : chain) good.try_emplace(handle);
  co_return false;
}

job::Task<Result<std::optional<std::string>>> find_name(Operation& operation, Handle directory, Handle wanted,
                                                        std::string except) {
  trove::KeyRange range = entries_after(directory, 0);
  for (bool more = true; more;) {
    SPATE_CO_TRY(const auto page, co_await read_page(operation, range, kScanPage));
    for (const trove::KeyValue& item : page.entries) {
      const auto key = parse_entry_key(item.key);
      const auto record = decode_record<EntryRecord>(item.value);
      if (key && record && record->handle == wanted && key->name != except) {
        co_return std::optional<std::string>(key->name);
      }
    }
    more = page.more;
    if (more) go_on(range, page);
  }
  co_return std::optional<std::string>();
}

namespace {

/// find_name() that gives up after `budget` entries; subtracts those that it has examined.
job::Task<Result<std::optional<std::string>>> name_within(Operation& operation, Handle directory, Handle wanted,
                                                          std::size_t& budget) {
  trove::KeyRange range = entries_after(directory, 0);
  for (bool more = true; more && budget > 0;) {
    SPATE_CO_TRY(const auto page, co_await read_page(operation, range, std::min(budget, kScanPage)));
    budget -= page.entries.size();
    for (const trove::KeyValue& item : page.entries) {
      const auto key = parse_entry_key(item.key);
      const auto record = decode_record<EntryRecord>(item.value);
      if (key && record && record->handle == wanted) co_return std::optional<std::string>(key->name);
    }
    more = page.more;
    if (more) go_on(range, page);
  }
  co_return std::optional<std::string>();
}

}  // namespace

job::Task<Result<std::string>> path_of(Operation& operation, Handle directory) {
  std::string path;
  std::size_t budget = kMaxLookedAt;
  for (Handle at = directory; at != kRootHandle;) {
    if (path.size() > kMaxPathBytes) co_return std::string();
    std::vector<Handle> one{at};  // not checked at commit: the path is only for the report
    SPATE_CO_TRY(InodeStates inode, co_await inode_states(operation, std::move(one)));
    if (!inode[at].directory()) co_return std::string();
    const Handle parent = inode[at].record.parent;
    SPATE_CO_TRY(const auto name, co_await name_within(operation, parent, at, budget));
    if (!name) co_return std::string();
    path.insert(0, "/" + *name);
    at = parent;
  }
  co_return path.empty() ? std::string("/") : path;
}

job::Task<Result<std::string>> path_of(Operation& operation, Handle directory, std::string name) {
  SPATE_CO_TRY(std::string path, co_await path_of(operation, directory));
  if (path.empty()) co_return name;
  if (path != "/") path += '/';
  co_return path + name;
}

job::Task<Result<bool>> has_entries(Operation& operation, Handle directory) {
  SPATE_CO_TRY(const auto first, co_await read_page(operation, entries_after(directory, 0), 1));
  co_return !first.entries.empty();
}

job::Task<Result<XattrCounts>> count_xattrs(Operation& operation, Handle handle) {
  XattrCounts counts;
  trove::KeyRange range = xattrs_of(handle);
  for (bool more = true; more;) {
    SPATE_CO_TRY(const auto page, co_await read_page(operation, range, kLargeRecords));
    for (const trove::KeyValue& item : page.entries) {
      const auto name = parse_xattr_key(item.key);
      if (!name || item.value.empty()) continue;
      ++counts.count;
      counts.bytes += static_cast<std::uint32_t>(name->size() + item.value.size() - 1);
    }
    more = page.more;
    if (more) go_on(range, page);
  }
  co_return counts;
}

job::Task<Result<std::uint64_t>> count_writers(Operation& operation, Handle handle) {
  trove::KeyRange range = opens_of(handle);
  range.limit = kScanPage;
  range.mode = mode_of(operation);
  std::uint64_t writers = 0;
  const auto take = [&writers](const trove::KeyValue& entry) -> Result<void> {
    const auto record = decode_record<OpenRecord>(entry.value);
    if (record) writers += record->writers;
    return {};
  };
  SPATE_CO_TRY(std::ignore,
               co_await job::read_range(operation.store(), std::move(range), "opens in the meta store", take));
  co_return writers;
}

job::Task<Result<trove::KeyvalCompletion>> scan_page(Operation& operation, const wire::MetaScanRequest& request,
                                                     KeyKind kind) {
  trove::KeyRange range = all_of(kind);
  if (!request.after.empty()) {
    const bool ours = request.after[0] == range.begin[0] && request.after.size() <= StoreKey::kMaxBytes;
    if (!ours) co_return Error::told(Errc::kInvalidArgument, "a cursor of another scan");
    range.begin = trove::key_after(request.after);
  }
  if (kind == KeyKind::kInode) range.begin = std::max(range.begin, inode_key(request.low).bytes());
  std::uint32_t wanted = request.max == 0 ? wire::kMaxScanPage : std::min(request.max, wire::kMaxScanPage);
  if (kind == KeyKind::kXattr || kind == KeyKind::kAnswer) wanted = std::min(wanted, kLargeRecords);
  auto page = co_await read_page(operation, std::move(range), wanted);
  co_return page;
}

void end_page(wire::MetaScanReply& reply, const trove::KeyvalCompletion& page) {
  reply.records = static_cast<std::uint32_t>(page.entries.size());
  reply.end = !page.more;
  if (page.more) reply.next = page.entries.back().key;
}

Outcome<wire::MetaScanReply> meta_scan(Operation& operation, const wire::MetaScanRequest& request) {
  Result<wire::MetaScanReply> reply = Error::told(Errc::kNotSupported, "a scan that this server does not know");
  if (request.what == wire::ScanKind::kInodes) {
    reply = co_await scan_inodes(operation, request);
  } else if (request.what == wire::ScanKind::kEntries) {
    reply = co_await scan_entries(operation, request);
  } else if (request.what > wire::ScanKind::kEntries && request.what <= wire::ScanKind::kSessions) {
    reply = co_await scan_neighbours(operation, request);
  } else if (request.what == wire::ScanKind::kParents) {
    reply = co_await scan_parents(operation, request);
  }
  if (reply && !request.findings) reply->findings.clear();
  co_return reply;
}

}  // namespace spate::meta
