// SPDX-License-Identifier: Apache-2.0
// Scans of entries: compare each with its directory and with the object it leads to, or find objects with names whose
// parent is unknown.
#include "server/meta/check/check.h"
#include "server/meta/core/core.h"

namespace spate::meta {
namespace {

using wire::Damage;
using wire::Finding;

/// A decoded entry of the page.
struct Entry {
  const trove::KeyValue* item = nullptr;
  Handle directory;
  EntryKeyParts key;
  EntryRecord record;
};

/// The check of one page.
struct EntryScan {
  Operation& operation;
  const wire::MetaScanRequest& request;
  wire::MetaScanReply reply;
  std::vector<Entry> entries;
  InodeStates inodes;
  /// Parents of objects with several names: which objects of the page they lead to, and by how many names.
  std::unordered_map<Handle, std::unordered_map<Handle, std::uint32_t>> children;

  Finding& found(Damage damage, const Entry& entry) {
    Finding& finding = reply.findings.emplace_back();
    finding.damage = damage;
    finding.handle = entry.record.handle;
    finding.directory = entry.directory;
    finding.name = entry.key.name;
    return finding;
  }
};

void parse(EntryScan& scan, const std::vector<trove::KeyValue>& items) {
  for (const trove::KeyValue& item : items) {
    Entry entry;
    entry.item = &item;
    const auto key = parse_entry_key(item.key);
    const auto record = decode_record<EntryRecord>(item.value);
    if (key) {
      entry.key = *key;
      entry.directory = Handle(*parse_id_key(item.key));
    }
    if (key && record) {
      entry.record = *record;
      scan.entries.push_back(entry);
    } else {
      scan.found(Damage::kUnreadableRecord, entry).key = item.key;
    }
  }
}

/// Counts the entry for its directory, whose inode exists.
void count(EntryScan& scan, const Entry& entry, const InodeRecord& directory, bool leads_to_directory) {
  auto& facts = scan.reply.directories;
  if (facts.empty() || facts.back().directory != entry.directory) {
    wire::DirectoryFact& fact = facts.emplace_back();
    fact.directory = entry.directory;
    fact.version = directory.attributes.version;
    fact.size = directory.attributes.size;
    fact.link_count = directory.attributes.link_count;
  }
  ++facts.back().entries;
  if (leads_to_directory) ++facts.back().subdirectories;
}

/// How many names of the object, to which an entry of the page leads, `directory` has. Counts all objects of the page,
/// since those that have a name in the same directory often have their parent in common, too.
job::Task<Result<std::uint32_t>> names_in(EntryScan& scan, Handle directory, Handle object) {
  constexpr std::size_t kMostKept = 16;
  const auto known = scan.children.find(directory);
  if (known != scan.children.end()) {
    const auto counted = known->second.find(object);
    co_return counted == known->second.end() ? 0 : counted->second;
  }
  if (scan.children.size() >= kMostKept) scan.children.clear();
  std::unordered_map<Handle, std::uint32_t>& found = scan.children[directory];
  trove::KeyRange range = entries_after(directory, 0);
  for (bool more = true; more;) {
    SPATE_CO_TRY(const auto page, co_await read_page(scan.operation, range, kScanPage));
    for (const trove::KeyValue& item : page.entries) {
      const auto record = decode_record<EntryRecord>(item.value);
      if (record && scan.inodes.contains(record->handle)) ++found[record->handle];
    }
    more = page.more;
    if (more) go_on(range, page);
  }
  const auto counted = found.find(object);
  co_return counted == found.end() ? 0 : counted->second;
}

/// Whether a parent of the object is known and wrong. A directory must have its only name there.
job::Task<Result<bool>> has_wrong_parent(EntryScan& scan, const Entry& entry, const InodeRecord& child) {
  if (child.is_directory()) co_return child.parent != entry.directory;
  if (!child.parent || (child.parent == entry.directory && !child.second_parent)) co_return false;
  SPATE_CO_TRY(const std::uint32_t names, co_await names_in(scan, child.parent, child.handle()));
  if (names == 0 || !child.second_parent) co_return names == 0;
  SPATE_CO_TRY(const std::uint32_t more, co_await names_in(scan, child.second_parent, child.handle()));
  co_return more < (child.second_parent == child.parent ? 2U : 1U);
}

job::Task<Result<void>> check_child(EntryScan& scan, const Entry& entry, const InodeState& child) {
  if (child.missing()) {
    bool lost_directory = false;
    if (entry.record.type == FileType::kDirectory) {
      SPATE_CO_TRY(lost_directory, co_await has_entries(scan.operation, entry.record.handle));
    }
    scan.found(lost_directory ? Damage::kMissingDirectory : Damage::kDanglingEntry, entry);
    co_return {};
  }
  if (!child.readable()) co_return {};
  if (child.record.attributes.type != entry.record.type) scan.found(Damage::kWrongEntryType, entry);
  SPATE_CO_TRY(const bool wrong, co_await has_wrong_parent(scan, entry, child.record));
  if (wrong) {
    scan.found(Damage::kWrongParent, entry).recorded = child.record.parent.value;
  }
  co_return {};
}

void tell(EntryScan& scan, const Entry& entry) {
  if (entry.record.handle < scan.request.low || entry.record.handle > scan.request.high) return;
  wire::EntryFact& fact = scan.reply.entries.emplace_back();
  fact.handle = entry.record.handle;
  fact.directory = entry.directory;
  if (scan.request.names) fact.name = entry.key.name;
}

job::Task<Result<void>> check_entry(EntryScan& scan, const Entry& entry, Handle before) {
  const InodeState& directory = scan.inodes[entry.directory];
  const InodeState& child = scan.inodes[entry.record.handle];
  if (scan.operation.core().name_hash()(entry.key.name) != entry.key.hash) {
    scan.found(Damage::kMisfiledEntry, entry).key = entry.item->key;
  }
  if (directory.directory()) {
    const bool leads_to_directory = child.readable() ? child.directory() : entry.record.type == FileType::kDirectory;
    count(scan, entry, directory.record, leads_to_directory);
  } else if (directory.status != InodeState::Status::kUnreadable && before != entry.directory) {
    // Reported once, with the first of its entries.
    Finding& finding = scan.reply.findings.emplace_back();
    finding.damage = Damage::kMissingDirectory;
    finding.handle = entry.directory;
  }
  auto checked = co_await check_child(scan, entry, child);
  co_return checked;
}

job::Task<Result<void>> check_all(EntryScan& scan) {
  std::vector<Handle> handles;
  for (const Entry& entry : scan.entries) {
    handles.push_back(entry.directory);
    handles.push_back(entry.record.handle);
  }
  SPATE_CO_TRY(scan.inodes, co_await inode_states(scan.operation, std::move(handles)));
  Handle before(parse_id_key(scan.request.after).value_or(0));
  for (const Entry& entry : scan.entries) {
    SPATE_CO_TRY(std::ignore, co_await check_entry(scan, entry, before));
    before = entry.directory;
  }
  co_return {};
}

job::Task<Result<void>> find_unknown_parents(EntryScan& scan) {
  std::vector<Handle> handles;
  for (const Entry& entry : scan.entries) handles.push_back(entry.record.handle);
  SPATE_CO_TRY(scan.inodes, co_await inode_states(scan.operation, std::move(handles)));
  for (const Entry& entry : scan.entries) {
    const InodeState& child = scan.inodes[entry.record.handle];
    if (child.readable() && !child.record.parent) scan.found(Damage::kUnknownParent, entry);
  }
  co_return {};
}

}  // namespace

Outcome<wire::MetaScanReply> scan_parents(Operation& operation, const wire::MetaScanRequest& request) {
  SPATE_CO_TRY(const auto page, co_await scan_page(operation, request, KeyKind::kEntry));
  EntryScan scan{operation, request, {}, {}, {}, {}};
  parse(scan, page.entries);
  scan.reply.findings.clear();  // the scan of entries reports records that cannot be read
  SPATE_CO_TRY(std::ignore, co_await find_unknown_parents(scan));
  end_page(scan.reply, page);
  co_return std::move(scan.reply);
}

Outcome<wire::MetaScanReply> scan_entries(Operation& operation, const wire::MetaScanRequest& request) {
  SPATE_CO_TRY(const auto page, co_await scan_page(operation, request, KeyKind::kEntry));
  EntryScan scan{operation, request, {}, {}, {}, {}};
  parse(scan, page.entries);
  for (const Entry& entry : scan.entries) tell(scan, entry);
  if (request.findings) {
    SPATE_CO_TRY(std::ignore, co_await check_all(scan));
  }
  end_page(scan.reply, page);
  co_return std::move(scan.reply);
}

}  // namespace spate::meta
