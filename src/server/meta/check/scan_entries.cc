// SPDX-License-Identifier: Apache-2.0
// Scan of entries: compares each with its directory and with the object it leads to.
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
  if (child.directory() && child.record.parent != entry.directory) {
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

}  // namespace

Outcome<wire::MetaScanReply> scan_entries(Operation& operation, const wire::MetaScanRequest& request) {
  SPATE_CO_TRY(const auto page, co_await scan_page(operation, request, KeyKind::kEntry));
  EntryScan scan{operation, request, {}, {}, {}};
  parse(scan, page.entries);
  for (const Entry& entry : scan.entries) tell(scan, entry);
  if (request.findings) {
    SPATE_CO_TRY(std::ignore, co_await check_all(scan));
  }
  end_page(scan.reply, page);
  co_return std::move(scan.reply);
}

}  // namespace spate::meta
