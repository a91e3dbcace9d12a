// SPDX-License-Identifier: Apache-2.0
#include "fsck/name_space.h"

#include "wire/cluster_messages.h"
#include "wire/meta_messages.h"

namespace spate::fsck {
namespace {

using wire::Damage;
using wire::Finding;
using wire::ScanKind;

/// Most names remembered for one suspect.
constexpr std::size_t kMaxNames = 64;
/// Most suspects whose names one reading of the entries looks for.
constexpr std::size_t kMaxNamed = 65536;

const std::string kNamesUnread =
    "an entry of the store cannot be read, and may be its name: that has to be mended first";

}  // namespace

NameSpaceCheck::NameSpaceCheck(Servers& servers, const Options& options, RepairQueue& queue, Observer& observer,
                               SizeCheck* sizes)
    : servers_(servers),
      options_(options),
      queue_(queue),
      observer_(observer),
      sizes_(sizes),
      table_(options.table_bytes) {}

job::Task<Result<void>> NameSpaceCheck::run(unsigned pass) {
  pass_ = pass;
  SPATE_CO_TRY(const auto statfs, co_await servers_.ask_meta<wire::MetaStatfsReply>(wire::MetaStatfsRequest()));
  expected_ = statfs.objects;
  bool more = true;
  for (bool first = true; more; first = false) {
    SPATE_CO_TRY(std::ignore, co_await scan_inodes(more));
    SPATE_CO_TRY(std::ignore, co_await scan_entries(first));
    SPATE_CO_TRY(std::ignore, co_await check_links());
  }
  auto others = co_await scan_others();
  co_return others;
}

job::Task<Result<wire::MetaScanReply>> NameSpaceCheck::page(wire::MetaScanRequest request) {
  request.max = options_.page;
  request.grace_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, options_.grace.count()));
  auto reply = co_await servers_.ask_meta<wire::MetaScanReply>(request, wire::kScanReplyRoom);
  if (reply && !reply->end && (reply->next.empty() || reply->next <= request.after)) {
    co_return Error(Errc::kProtocol, servers_.name_of(servers_.meta_server()) + ": a scan that does not go on");
  }
  co_return reply;
}

void NameSpaceCheck::take_findings(wire::MetaScanReply& reply) {
  for (Finding& finding : reply.findings) {
    if (finding.damage == Damage::kWrongParent && misled_.size() < options_.max_findings) {
      misled_.emplace(finding.directory, finding.name);
    }
    queue_.suspect(std::move(finding));
  }
}

Result<void> NameSpaceCheck::take_inodes(const wire::MetaScanReply& reply) {
  for (const wire::InodeFact& inode : reply.inodes) {
    const bool ascends = inode.handle >= next_low_ && table_.add(inode);
    if (!ascends) return Error(Errc::kProtocol, servers_.name_of(servers_.meta_server()) + ": inodes out of order");
    if (sizes_ != nullptr) sizes_->add(inode);
  }
  return {};
}

job::Task<Result<void>> NameSpaceCheck::scan_inodes(bool& more) {
  wire::MetaScanRequest request;
  request.what = ScanKind::kInodes;
  request.low = next_low_;
  for (more = true; more && !table_.full();) {
    SPATE_CO_TRY(wire::MetaScanReply reply, co_await page(request));
    SPATE_CO_TRY(std::ignore, take_inodes(reply));
    inodes_ += reply.records;
    take_findings(reply);
    SPATE_CO_TRY(std::ignore, co_await queue_.make_room());
    if (sizes_ != nullptr) {
      SPATE_CO_TRY(std::ignore, co_await sizes_->ask_when_many());
    }
    more = !reply.end;
    request.after = std::move(reply.next);
    tell_progress(Phase::kInodes, inodes_, expected_);
  }
  if (!table_.empty()) next_low_ = Handle(table_.last().value + 1);
  if (sizes_ != nullptr && !more) {
    SPATE_CO_TRY(std::ignore, co_await sizes_->ask_all());
  }
  co_return Result<void>();
}

void NameSpaceCheck::count_directory(const wire::DirectoryFact& fact) {
  if (counting_ && counting_->sum.directory != fact.directory) close_directory();
  if (!counting_) {
    counting_ = DirectoryCount{fact, false};
    return;
  }
  // If the version has changed, clients work there, and the count belongs to neither state.
  if (counting_->sum.version != fact.version) counting_->changed = true;
  counting_->sum.entries += fact.entries;
  counting_->sum.subdirectories += fact.subdirectories;
}

void NameSpaceCheck::close_directory() {
  if (!counting_) return;
  const wire::DirectoryFact& sum = counting_->sum;
  // After a change, the server counts again itself, in one state, when it looks at the suspicion.
  if (counting_->changed || sum.entries != sum.size || sum.link_count != 2 + sum.subdirectories) {
    Finding finding;
    finding.damage = Damage::kWrongDirectoryCounts;
    finding.handle = sum.directory;
    finding.recorded = sum.size;
    finding.actual = sum.entries;
    queue_.suspect(std::move(finding));
  }
  counting_.reset();
}

job::Task<Result<void>> NameSpaceCheck::scan_entries(bool first_round) {
  wire::MetaScanRequest request;
  request.what = ScanKind::kEntries;
  request.findings = first_round;
  request.low = table_.empty() ? Handle(UINT64_MAX) : table_.first();
  request.high = table_.empty() ? Handle(UINT64_MAX) : table_.last();
  for (bool more = true; more;) {
    SPATE_CO_TRY(wire::MetaScanReply reply, co_await page(request));
    for (const wire::EntryFact& entry : reply.entries) table_.count(entry.handle);
    for (const Finding& finding : reply.findings) {
      unreadable_names_ = unreadable_names_ || finding.damage == Damage::kUnreadableRecord;
    }
    if (first_round) {
      entries_ += reply.records;
      for (const wire::DirectoryFact& fact : reply.directories) count_directory(fact);
      take_findings(reply);
      SPATE_CO_TRY(std::ignore, co_await queue_.make_room());
      tell_progress(Phase::kEntries, entries_, expected_);
    }
    more = !reply.end;
    request.after = std::move(reply.next);
  }
  close_directory();
  co_return Result<void>();
}

void NameSpaceCheck::suspect_nameless(const Linked& inode) {
  Finding finding;
  const bool unlinked = !inode.directory && inode.link_count == 0;
  finding.damage = unlinked ? Damage::kUnfinishedUnlink : Damage::kOrphanInode;
  finding.handle = inode.handle;
  finding.version = inode.version;
  finding.recorded = inode.link_count;
  queue_.suspect(std::move(finding), unreadable_names_ ? kNamesUnread : std::string());
}

void NameSpaceCheck::suspect_named(const Linked& inode, const std::vector<Name>& names) {
  if (!inode.directory) {
    Finding finding;
    finding.damage = Damage::kWrongLinkCount;
    finding.handle = inode.handle;
    finding.version = inode.version;
    finding.recorded = inode.link_count;
    finding.actual = inode.names;
    if (!names.empty()) {
      finding.directory = names[0].directory;
      finding.name = names[0].name;
    }
    queue_.suspect(std::move(finding), unreadable_names_ ? kNamesUnread : std::string());
    return;
  }
  // Reports all but one of several names in one directory. The scan of entries deals with names in other directories.
  std::set<Handle> seen;
  for (const Name& name : names) {
    const bool keep = inode.handle != kRootHandle && seen.insert(name.directory).second;
    if (keep || misled_.contains({name.directory, name.name})) continue;
    Finding finding;
    finding.damage = Damage::kSecondName;
    finding.handle = inode.handle;
    finding.directory = name.directory;
    finding.name = name.name;
    queue_.suspect(std::move(finding));
  }
}

job::Task<Result<void>> NameSpaceCheck::check_links() {
  const std::vector<Linked> suspects = table_.take_suspects();
  std::vector<Linked> named;
  for (const Linked& inode : suspects) {
    if (inode.names > 0) {
      named.push_back(inode);
      if (named.size() < kMaxNamed) continue;
      SPATE_CO_TRY(std::ignore, co_await find_names(named));
      named.clear();
      continue;
    }
    suspect_nameless(inode);
    SPATE_CO_TRY(std::ignore, co_await queue_.make_room());
  }
  auto found = co_await find_names(named);
  co_return found;
}

/// Reads the entries again for the names of the suspects: the names are reported, and counted again.
job::Task<Result<void>> NameSpaceCheck::find_names(std::vector<Linked>& suspects) {
  if (suspects.empty()) co_return Result<void>();
  names_.clear();
  std::unordered_map<Handle, std::uint32_t> counts;
  for (const Linked& inode : suspects) names_.try_emplace(inode.handle);
  wire::MetaScanRequest request;
  request.what = ScanKind::kEntries;
  request.findings = false;
  request.names = true;
  request.low = suspects.front().handle;
  request.high = suspects.back().handle;
  for (bool more = true; more;) {
    SPATE_CO_TRY(wire::MetaScanReply reply, co_await page(request));
    for (wire::EntryFact& entry : reply.entries) {
      const auto found = names_.find(entry.handle);
      if (found == names_.end()) continue;
      ++counts[entry.handle];
      if (found->second.size() < kMaxNames) found->second.push_back({entry.directory, std::move(entry.name)});
    }
    more = !reply.end;
    request.after = std::move(reply.next);
  }
  for (const Linked& inode : suspects) {
    // If the two counts differ, clients work there.
    if (counts[inode.handle] == inode.names) suspect_named(inode, names_[inode.handle]);
  }
  names_.clear();
  auto room = co_await queue_.make_room();
  co_return room;
}

job::Task<Result<void>> NameSpaceCheck::scan_others() {
  for (const ScanKind what : {ScanKind::kXattrs, ScanKind::kOpens, ScanKind::kTruncates, ScanKind::kUnsettled,
                              ScanKind::kRemovals, ScanKind::kAnswers, ScanKind::kSessions}) {
    wire::MetaScanRequest request;
    request.what = what;
    for (bool more = true; more;) {
      SPATE_CO_TRY(wire::MetaScanReply reply, co_await page(request));
      unfinished_ += reply.unfinished;
      records_ += reply.records;
      take_findings(reply);
      SPATE_CO_TRY(std::ignore, co_await queue_.make_room());
      more = !reply.end;
      request.after = std::move(reply.next);
      tell_progress(Phase::kRecords, records_, 0);
    }
  }
  co_return Result<void>();
}

void NameSpaceCheck::tell_progress(Phase phase, std::uint64_t done, std::uint64_t expected) {
  Progress progress;
  progress.pass = pass_;
  progress.phase = phase;
  progress.done = done;
  progress.expected = expected;
  observer_.progress(progress);
}

}  // namespace spate::fsck
