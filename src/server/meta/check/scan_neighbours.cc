// SPDX-License-Identifier: Apache-2.0
// Scans of records that belong to an inode or a session: whether that exists, and whether background work is overdue.
#include <algorithm>
#include <set>

#include "server/meta/check/check.h"
#include "server/meta/core/core.h"

namespace spate::meta {
namespace {

using wire::Damage;
using wire::Finding;
using wire::ScanKind;

/// The check of one page.
struct NeighbourScan {
  Operation& operation;
  const wire::MetaScanRequest& request;
  wire::MetaScanReply reply;
  Handle last;  // the last one reported: each handle is reported once

  Finding& found(Damage damage, Handle handle) {
    Finding& finding = reply.findings.emplace_back();
    finding.damage = damage;
    finding.handle = handle;
    return finding;
  }
  /// Whether the work is older than the grace: background work should not take so long.
  bool late(WallTime since) const {
    return operation.now().ns - since.ns >
           static_cast<std::int64_t>(std::min<std::uint64_t>(request.grace_ns, INT64_MAX));
  }
};

/// One record of the page, its decoded key, and the inode it belongs to.
struct Neighbour {
  const trove::KeyValue& item;
  Handle handle;
  const InodeState& inode;
};

KeyKind kind_of(ScanKind what) {
  switch (what) {
    case ScanKind::kXattrs: return KeyKind::kXattr;
    case ScanKind::kOpens: return KeyKind::kOpen;
    case ScanKind::kRemovals: return KeyKind::kRemoval;
    case ScanKind::kTruncates: return KeyKind::kTruncate;
    case ScanKind::kUnsettled: return KeyKind::kUnsettled;
    case ScanKind::kAnswers: return KeyKind::kAnswer;
    default: return KeyKind::kSession;
  }
}

void unreadable(NeighbourScan& scan, const trove::KeyValue& item) {
  scan.found(Damage::kUnreadableRecord, Handle(parse_id_key(item.key).value_or(0))).key = item.key;
}

void check_xattr(NeighbourScan& scan, const Neighbour& n) {
  if (!parse_xattr_key(n.item.key)) return unreadable(scan, n.item);
  if (n.handle == scan.last) return;
  scan.last = n.handle;
  if (n.inode.missing()) scan.found(Damage::kStrayXattr, n.handle);
  if (n.inode.readable() && n.inode.record.xattr_count == 0) scan.found(Damage::kWrongXattrCounts, n.handle).actual = 1;
}

void check_open(NeighbourScan& scan, const Neighbour& n) {
  const auto key = parse_open_key(n.item.key);
  if (!key || !decode_record<OpenRecord>(n.item.value)) return unreadable(scan, n.item);
  if (!n.inode.missing()) return;
  Finding& finding = scan.found(Damage::kStrayOpen, n.handle);
  finding.client = key->client;
  finding.epoch = key->epoch;
}

void check_removal(NeighbourScan& scan, const Neighbour& n) {
  const auto record = decode_record<RemovalRecord>(n.item.value);
  if (!record) return unreadable(scan, n.item);
  if (!n.inode.missing()) {
    scan.found(Damage::kRemovalOfLiveFile, n.handle);
  } else if (scan.late(record->since)) {
    scan.found(Damage::kStuckRemoval, n.handle).since = record->since;
  } else {
    ++scan.reply.unfinished;
  }
}

void check_truncate(NeighbourScan& scan, const Neighbour& n) {
  const auto record = decode_record<TruncateIntent>(n.item.value);
  if (!record) return unreadable(scan, n.item);
  if (!scan.late(record->when)) {
    ++scan.reply.unfinished;
    return;
  }
  // An inode without the mark is the scan of inodes' finding.
  if (n.inode.readable() && !n.inode.record.truncating) return;
  scan.found(n.inode.missing() ? Damage::kStrayIntent : Damage::kStuckTruncate, n.handle).since = record->when;
}

void check_unsettled(NeighbourScan& scan, const Neighbour& n) {
  const auto record = decode_record<UnsettledRecord>(n.item.value);
  if (!record) return unreadable(scan, n.item);
  if (!scan.late(record->since)) {
    ++scan.reply.unfinished;
    return;
  }
  const bool waits = n.inode.readable() && !n.inode.record.attributes.size_known && n.inode.record.write_opens == 0;
  scan.found(waits ? Damage::kStuckSize : Damage::kStrayUnsettled, n.handle).since = record->since;
}

/// The existing sessions among those that a page of answers belongs to.
job::Task<Result<std::set<ClientId>>> sessions_of(Operation& operation, const trove::KeyvalCompletion& page) {
  std::set<ClientId> clients;
  for (const trove::KeyValue& item : page.entries) clients.insert(ClientId(parse_id_key(item.key).value_or(0)));
  std::vector<Bytes> keys;
  for (const ClientId client : clients) keys.push_back(session_key(client).bytes());
  const auto read = co_await operation.store().get_many(keys, trove::ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return read.status;
  clients.clear();
  for (const trove::KeyValue& item : read.entries) clients.insert(ClientId(parse_id_key(item.key).value_or(0)));
  co_return clients;
}

job::Task<Result<void>> check_answers(NeighbourScan& scan, const trove::KeyvalCompletion& page) {
  SPATE_CO_TRY(const std::set<ClientId> sessions, co_await sessions_of(scan.operation, page));
  ClientId last(parse_id_key(scan.request.after).value_or(0));
  for (const trove::KeyValue& item : page.entries) {
    const ClientId client(parse_id_key(item.key).value_or(0));
    if (!decode_record<AnswerRecord>(item.value)) unreadable(scan, item);
    if (client != last && !sessions.contains(client)) scan.found(Damage::kStrayAnswer, Handle()).client = client;
    last = client;
  }
  co_return {};
}

void check(NeighbourScan& scan, const Neighbour& n) {
  switch (scan.request.what) {
    case ScanKind::kXattrs: return check_xattr(scan, n);
    case ScanKind::kOpens: return check_open(scan, n);
    case ScanKind::kRemovals: return check_removal(scan, n);
    case ScanKind::kTruncates: return check_truncate(scan, n);
    case ScanKind::kUnsettled: return check_unsettled(scan, n);
    default: break;
  }
}

job::Task<Result<void>> check_objects(NeighbourScan& scan, const trove::KeyvalCompletion& page) {
  std::vector<Handle> handles;
  for (const trove::KeyValue& item : page.entries) handles.emplace_back(parse_id_key(item.key).value_or(0));
  std::vector<Handle> wanted = handles;
  SPATE_CO_TRY(const InodeStates inodes, co_await inode_states(scan.operation, std::move(wanted)));
  scan.last = Handle(parse_id_key(scan.request.after).value_or(0));
  for (std::size_t i = 0; i < handles.size(); ++i) {
    check(scan, {page.entries[i], handles[i], inodes.at(handles[i])});
  }
  co_return {};
}

}  // namespace

Outcome<wire::MetaScanReply> scan_neighbours(Operation& operation, const wire::MetaScanRequest& request) {
  SPATE_CO_TRY(const auto page, co_await scan_page(operation, request, kind_of(request.what)));
  NeighbourScan scan{operation, request, {}, {}};
  if (request.what == ScanKind::kSessions) {
    for (const trove::KeyValue& item : page.entries) {
      if (!decode_record<SessionRecord>(item.value)) unreadable(scan, item);
    }
  } else if (request.what == ScanKind::kAnswers) {
    SPATE_CO_TRY(std::ignore, co_await check_answers(scan, page));
  } else {
    SPATE_CO_TRY(std::ignore, co_await check_objects(scan, page));
  }
  end_page(scan.reply, page);
  co_return std::move(scan.reply);
}

}  // namespace spate::meta
