// SPDX-License-Identifier: Apache-2.0
// Repairs of entries, and of a directory's counts of its entries.
#include "server/meta/check/repair.h"
#include "server/meta/core/core.h"
#include "server/meta/names/objects.h"

namespace spate::meta {
namespace {

struct EntryCounts {
  std::uint64_t entries = 0;
  std::uint32_t subdirectories = 0;
};

/// Counts all entries of a directory as this transaction sees them. A change of entries also changes the directory's
/// inode, which the caller has read checked.
job::Task<Result<EntryCounts>> count_entries(Operation& operation, Handle directory) {
  EntryCounts counts;
  trove::KeyRange range = entries_after(directory, 0);
  for (bool more = true; more;) {
    SPATE_CO_TRY(const auto page, co_await read_page(operation, range, kScanPage));
    std::vector<EntryRecord> entries;
    std::vector<Handle> handles;
    for (const trove::KeyValue& item : page.entries) {
      const auto record = decode_record<EntryRecord>(item.value);
      if (!record || !parse_entry_key(item.key)) continue;
      entries.push_back(*record);
      handles.push_back(record->handle);
    }
    SPATE_CO_TRY(const InodeStates inodes, co_await inode_states(operation, std::move(handles)));
    for (const EntryRecord& entry : entries) {
      const InodeState& inode = inodes.at(entry.handle);
      const bool leads_to_directory = inode.readable() ? inode.directory() : entry.type == FileType::kDirectory;
      ++counts.entries;
      if (leads_to_directory) ++counts.subdirectories;
    }
    more = page.more;
    if (more) go_on(range, page);
  }
  co_return counts;
}

std::string counts_text(const EntryCounts& counts) {
  return std::to_string(counts.entries) + " entries, " + std::to_string(counts.subdirectories) + " of them directories";
}

/// The finding's entry, if it still leads to what the finding says. The directory is locked.
job::Task<Result<std::optional<EntryRecord>>> entry_of(Repair& repair) {
  const wire::Finding& finding = repair.finding;
  SPATE_CO_TRY(std::ignore, repair.lock({finding.directory}));
  if (finding.name.empty() || finding.name.size() > kMaxNameBytes) co_return std::optional<EntryRecord>();
  std::string name = finding.name;
  SPATE_CO_TRY(auto entry, co_await repair.operation.entry(finding.directory, std::move(name)));
  if (entry && entry->handle != finding.handle) entry.reset();
  co_return entry;
}

/// Rebuilds a directory's inode from its entries. Its mode and owner are lost, so only the caller of the repair may
/// open it.
InodeRecord rebuilt(const Repair& repair, const EntryCounts& counts) {
  InodeRecord inode;
  Attributes& a = inode.attributes;
  a.handle = repair.finding.handle;
  a.type = FileType::kDirectory;
  a.mode = 0700;
  a.uid = repair.operation.who().uid;
  a.gid = repair.operation.who().gid;
  a.link_count = 2 + counts.subdirectories;
  a.size = counts.entries;
  a.atime = a.mtime = a.ctime = a.btime = repair.operation.now();
  a.version = 1;
  inode.entries_version = 1;
  inode.parent = kRootHandle;
  return inode;
}

}  // namespace

job::Task<Result<void>> mend_dangling_entry(Repair& repair) {
  SPATE_CO_TRY(const auto entry, co_await entry_of(repair));
  if (!entry) co_return {};
  Operation& operation = repair.operation;
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(operation, entry->handle));
  if (!inode.missing()) co_return {};
  const bool directory = entry->type == FileType::kDirectory;
  if (directory) {
    SPATE_CO_TRY(const bool filled, co_await has_entries(operation, entry->handle));
    if (filled) co_return {};  // the directory is missing, but has entries: another repair rebuilds it
  }
  if (!repair.confirm("the entry was removed")) co_return {};
  std::string name = repair.finding.name;
  auto taken = co_await take_entry(operation, repair.finding.directory, std::move(name), directory);
  co_return taken;
}

job::Task<Result<void>> mend_missing_directory(Repair& repair) {
  const Handle handle = repair.finding.handle;
  Operation& operation = repair.operation;
  SPATE_CO_TRY(std::ignore, repair.lock({handle}));
  std::optional<EntryRecord> place;
  if (repair.finding.directory) {
    SPATE_CO_TRY(place, co_await entry_of(repair));
  }
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(operation, handle));
  SPATE_CO_TRY(const EntryCounts counts, co_await count_entries(operation, handle));
  if (counts.entries == 0 || inode.directory()) co_return {};
  if (!inode.missing()) {
    repair.leave("object " + std::to_string(handle.value) + " has entries (" + counts_text(counts) +
                 ") but is no directory, or cannot be read: see docs/fsck.md, \"By hand\"");
    co_return {};
  }
  InodeRecord made = rebuilt(repair, counts);
  if (!repair.confirm("the directory was made again, with " + counts_text(counts))) co_return {};
  operation.deferred().count_object(1);
  if (handle != kRootHandle && !place) {
    SPATE_CO_TRY(repair.reply.path, co_await put_in_lost_found(operation, made));
    co_return {};
  }
  if (place) made.parent = repair.finding.directory;
  operation.put(made);
  co_return {};
}

job::Task<Result<void>> mend_entry_type(Repair& repair) {
  SPATE_CO_TRY(const auto entry, co_await entry_of(repair));
  if (!entry) co_return {};
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(repair.operation, entry->handle));
  if (!inode.readable() || inode.record.attributes.type == entry->type) co_return {};
  if (!repair.confirm("the entry has the object's type now")) co_return {};
  repair.operation.put_entry(repair.finding.directory, repair.finding.name,
                             EntryRecord{entry->handle, inode.record.attributes.type});
  co_return {};
}

job::Task<Result<void>> mend_misfiled_entry(Repair& repair) {
  Operation& operation = repair.operation;
  const Bytes& old_key = repair.finding.key;
  const auto key = parse_entry_key(old_key);
  if (!key || key->hash == operation.core().name_hash()(key->name)) co_return {};
  const Handle directory(*parse_id_key(old_key));
  SPATE_CO_TRY(std::ignore, repair.lock({directory}));
  const auto stored = co_await operation.store().get(old_key);
  if (stored.status != Errc::kOk) co_return stored.status;
  if (!stored.value) co_return {};
  SPATE_CO_TRY(const EntryRecord record, decode_record<EntryRecord>(*stored.value));
  SPATE_CO_TRY(InodeState inode, co_await inode_state(operation, directory));
  // The name where it belongs, or, if another object has that name by now, its number.
  std::string name(key->name);
  for (int i = 0; i < 2; ++i) {
    std::string asked = name;
    SPATE_CO_TRY(const auto taken, co_await operation.entry(directory, std::move(asked)));
    if (!taken) break;
    if (i == 1) {
      repair.leave("both its name and " + name + " are taken in this directory: rename one of them");
      co_return {};
    }
    name = "#" + std::to_string(record.handle.value);
  }
  if (!repair.confirm("it is found as " + name + " now")) co_return {};
  operation.erase(old_key);
  operation.put_entry(directory, name, record);
  if (!inode.directory()) co_return {};
  touch_entries(inode.record, operation.now(), 0, 0);
  operation.put(inode.record);
  co_return {};
}

job::Task<Result<void>> mend_directory_counts(Repair& repair) {
  const Handle handle = repair.finding.handle;
  Operation& operation = repair.operation;
  SPATE_CO_TRY(std::ignore, repair.lock({handle}));
  SPATE_CO_TRY(InodeState inode, co_await inode_state(operation, handle));
  if (!inode.directory()) co_return {};
  SPATE_CO_TRY(const EntryCounts counts, co_await count_entries(operation, handle));
  Attributes& a = inode.record.attributes;
  if (a.size == counts.entries && a.link_count == 2 + counts.subdirectories) co_return {};
  SPATE_CO_TRY(repair.reply.path, co_await path_of(operation, handle));
  const std::string before =
      std::to_string(a.size) + " entries and " + std::to_string(a.link_count) + " links were recorded";
  if (!repair.confirm("there are " + counts_text(counts) + "; " + before)) co_return {};
  touch_entries(inode.record, operation.now(), 0, 0);
  a.size = counts.entries;
  a.link_count = 2 + counts.subdirectories;
  operation.put(inode.record);
  co_return {};
}

}  // namespace spate::meta
