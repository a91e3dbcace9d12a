// SPDX-License-Identifier: Apache-2.0
// Scan of inodes: compares each with its opens, intents, attributes, entries (only whether there are any) and
// ancestors.
#include <map>
#include <set>

#include "dist/registry.h"
#include "server/meta/check/check.h"
#include "server/meta/core/core.h"

namespace spate::meta {
namespace {

using wire::Damage;
using wire::Finding;

/// The records related to one page of inodes.
struct RelatedRecords {
  std::map<Handle, std::uint64_t> writers;
  std::set<Handle> intents;
  std::set<Handle> unsettled;
  CounterRecord given;                      // given_handles()
  std::unordered_map<Handle, bool> rooted;  // directories that lead to the root
};

/// The check of one page.
struct InodeScan {
  Operation& operation;
  const wire::MetaScanRequest& request;
  wire::MetaScanReply reply;
  RelatedRecords related;

  Finding& found(Damage damage, const InodeRecord& inode) {
    Finding& finding = reply.findings.emplace_back();
    finding.damage = damage;
    finding.handle = inode.handle();
    finding.version = inode.attributes.version;
    return finding;
  }
};

/// All records of a kind whose handle is in [low, high].
trove::KeyRange between(KeyKind kind, Handle low, Handle high) {
  trove::KeyRange range = all_of(kind);
  range.begin = StoreKey(kind).append_u64(low.value).bytes();
  if (high.value != UINT64_MAX) range.end = StoreKey(kind).append_u64(high.value + 1).bytes();
  return range;
}

template <typename Visit>
job::Task<Result<void>> for_each(Operation& operation, trove::KeyRange range, Visit& visit) {
  for (bool more = true; more;) {
    SPATE_CO_TRY(const auto page, co_await read_page(operation, range, kScanPage));
    for (const trove::KeyValue& item : page.entries) visit(item);
    more = page.more;
    if (more) go_on(range, page);
  }
  co_return {};
}

job::Task<Result<void>> read_related(InodeScan& scan, Handle low, Handle high) {
  RelatedRecords& related = scan.related;
  auto open = [&related](const trove::KeyValue& item) {
    const auto key = parse_open_key(item.key);
    const auto record = decode_record<OpenRecord>(item.value);
    if (key && record) related.writers[key->handle] += record->writers;
  };
  auto intent = [&related](const trove::KeyValue& item) {
    related.intents.insert(Handle(parse_id_key(item.key).value_or(0)));
  };
  auto unsettled = [&related](const trove::KeyValue& item) {
    related.unsettled.insert(Handle(parse_id_key(item.key).value_or(0)));
  };
  SPATE_CO_TRY(std::ignore, co_await for_each(scan.operation, between(KeyKind::kOpen, low, high), open));
  SPATE_CO_TRY(std::ignore, co_await for_each(scan.operation, between(KeyKind::kTruncate, low, high), intent));
  SPATE_CO_TRY(std::ignore, co_await for_each(scan.operation, between(KeyKind::kUnsettled, low, high), unsettled));
  SPATE_CO_TRY(related.given, co_await given_handles(scan.operation));
  co_return {};
}

void check_targets(InodeScan& scan, const InodeRecord& inode) {
  for (std::uint32_t slot = 0; slot < inode.layout->slots.size(); ++slot) {
    for (const TargetId target : inode.layout->slots[slot].targets) {
      if (scan.operation.core().has_target(target)) continue;
      scan.found(Damage::kUnknownTarget, inode).slot = {slot, target};
      return;
    }
  }
}

void check_file(InodeScan& scan, const InodeRecord& inode) {
  const Handle handle = inode.handle();
  const auto writers = scan.related.writers.find(handle);
  const std::uint64_t writing = writers == scan.related.writers.end() ? 0 : writers->second;
  const bool asked_for = scan.related.unsettled.contains(handle);
  const bool intended = scan.related.intents.contains(handle);
  if (writing != inode.write_opens) {
    Finding& finding = scan.found(Damage::kWrongOpenCount, inode);
    finding.recorded = inode.write_opens;
    finding.actual = writing;
  } else if (inode.attributes.size_known ? writing > 0 : writing == 0 && !asked_for) {
    scan.found(Damage::kSizeNotAsked, inode);
  }
  if (inode.truncating && !intended) scan.found(Damage::kTruncateWithoutIntent, inode);
  if (!inode.truncating && intended) scan.found(Damage::kStrayIntent, inode);
  check_targets(scan, inode);
}

/// Reports the location of the file's last byte, if the inode's size is exact.
void tell_last_byte(const DataGroups& groups, wire::InodeFact& fact, const InodeRecord& inode) {
  const Attributes& a = inode.attributes;
  if (!a.size_known || a.size == 0 || inode.truncating || inode.write_opens > 0) return;
  const auto distribution = make_distribution(*inode.layout);
  if (!distribution || a.size > kMaxFileBytes) return;
  const Physical last = (*distribution)->to_physical(a.size - 1);
  const Slot& slot = inode.layout->slots[last.slot];
  if (slot.targets.empty()) return;
  fact.size = a.size;
  TargetId target = slot.targets.front();
  if (const DataGroup* const group = groups.find(target)) target = group->primary;
  fact.last_slot = wire::SlotRef{last.slot, target};
  fact.last_bytes = last.offset + 1;
}

job::Task<Result<void>> check_directory(InodeScan& scan, const InodeRecord& inode) {
  // Directories with entries are counted by the scan of entries.
  if (inode.attributes.size > 0 || inode.attributes.link_count != 2) {
    SPATE_CO_TRY(const auto first, co_await read_page(scan.operation, entries_after(inode.handle(), 0), 1));
    if (first.entries.empty()) {
      scan.found(Damage::kWrongDirectoryCounts, inode).recorded = inode.attributes.size;
    }
  }
  if (inode.handle() == kRootHandle) co_return {};
  SPATE_CO_TRY(const bool loop, co_await heads_a_loop(scan.operation, inode, scan.related.rooted));
  if (loop) scan.found(Damage::kDirectoryLoop, inode);
  co_return {};
}

job::Task<Result<void>> check_inode(InodeScan& scan, const InodeRecord& inode) {
  wire::InodeFact& fact = scan.reply.inodes.emplace_back();
  fact.handle = inode.handle();
  fact.version = inode.attributes.version;
  fact.type = inode.attributes.type;
  fact.link_count = inode.attributes.link_count;
  if (!is_given(scan.operation, scan.related.given, inode.handle())) scan.found(Damage::kHandleNotGiven, inode);
  if (inode.is_regular()) {
    tell_last_byte(scan.operation.core().data_groups(), fact, inode);
    check_file(scan, inode);
  }
  if (inode.is_directory()) {
    SPATE_CO_TRY(std::ignore, co_await check_directory(scan, inode));
  } else if (inode.attributes.link_count == 0 && inode.parent) {
    scan.found(Damage::kWrongParent, inode).recorded = inode.parent.value;
  }
  if (inode.xattr_count > 0) {
    SPATE_CO_TRY(const XattrCounts counts, co_await count_xattrs(scan.operation, inode.handle()));
    if (counts.count != inode.xattr_count || counts.bytes != inode.xattr_bytes) {
      Finding& finding = scan.found(Damage::kWrongXattrCounts, inode);
      finding.recorded = inode.xattr_count;
      finding.actual = counts.count;
    }
  }
  co_return {};
}

}  // namespace

Outcome<wire::MetaScanReply> scan_inodes(Operation& operation, const wire::MetaScanRequest& request) {
  SPATE_CO_TRY(const auto page, co_await scan_page(operation, request, KeyKind::kInode));
  InodeScan scan{operation, request, {}, {}};
  if (!page.entries.empty()) {
    const Handle low(parse_id_key(page.entries.front().key).value_or(0));
    const Handle high(parse_id_key(page.entries.back().key).value_or(UINT64_MAX));
    SPATE_CO_TRY(std::ignore, co_await read_related(scan, low, high));
  }
  for (const trove::KeyValue& item : page.entries) {
    const Handle handle(parse_id_key(item.key).value_or(0));
    const auto record = decode_record<InodeRecord>(item.value);
    if (record && record->handle() == handle) {
      SPATE_CO_TRY(std::ignore, co_await check_inode(scan, *record));
      continue;
    }
    Finding& finding = scan.reply.findings.emplace_back();
    finding.damage = Damage::kUnreadableRecord;
    finding.handle = handle;
    finding.key = item.key;
  }
  end_page(scan.reply, page);
  co_return std::move(scan.reply);
}

}  // namespace spate::meta
