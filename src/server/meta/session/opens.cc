// SPDX-License-Identifier: Apache-2.0
#include "server/meta/session/opens.h"

#include <algorithm>

#include "job/range_read.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/meta/names/sizes.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

constexpr std::size_t kOpensAtOnce = 1000;
constexpr std::uint32_t kMaxOpens = 1U << 30U;  // of one file by one session

}  // namespace

/// Counts an open while its operation runs, so that the end of its session does not overlook it.
class OpenTable::Hint {
 public:
  Hint(OpenTable& table, ClientId client, Handle handle) : table_(table), client_(client), handle_(handle) {
    table_.count(client_, handle_, 1);
  }
  Hint(const Hint&) = delete;
  Hint& operator=(const Hint&) = delete;
  ~Hint() {
    if (!kept_) table_.count(client_, handle_, -1);
  }
  void keep() { kept_ = true; }

 private:
  OpenTable& table_;
  const ClientId client_;
  const Handle handle_;
  bool kept_ = false;
};

Rights rights_of(std::uint8_t open_flags) {
  return static_cast<Rights>(open_flags & (wire::kOpenRead | wire::kOpenWrite));
}

void OpenTable::count(ClientId client, Handle handle, int difference) {
  std::map<Handle, int>& files = held_[client];
  if ((files[handle] += difference) == 0) files.erase(handle);
  if (files.empty()) held_.erase(client);
  if ((files_[handle] += difference) == 0) files_.erase(handle);
}

void OpenTable::dropped(ClientId client, Handle handle) {
  const auto held = held_.find(client);
  if (held != held_.end() && held->second.contains(handle)) count(client, handle, -1);
}

std::vector<ClientId> OpenTable::holders() const {
  std::vector<ClientId> clients;
  for (const auto& [client, files] : held_) clients.push_back(client);
  std::sort(clients.begin(), clients.end());
  return clients;
}

job::Task<Result<void>> OpenTable::start() {
  job::Transaction transaction = core_.store().begin();
  trove::KeyRange range = all_of(KeyKind::kOpen);
  range.limit = kOpensAtOnce;
  range.mode = trove::ReadMode::kSnapshot;
  const auto take = [this](const trove::KeyValue& entry) -> Result<void> {
    const auto key = parse_open_key(entry.key);
    if (!key) return Error(Errc::kCorrupt, "an open record has an invalid key in the store");
    count(key->client, key->handle, 1);
    return {};
  };
  auto done = co_await job::read_range(transaction, std::move(range), "opens in the meta store", take);
  co_return done;
}

Capability OpenTable::capability_for(Operation& operation, const InodeRecord& inode, Rights rights) {
  const MetaOptions& options = core_.options();
  Capability capability;
  capability.handle = inode.handle();
  capability.rights = rights | (inode.layout->redundancy == Redundancy::kMirror ? Rights::kOnGroups : Rights::kNone);
  capability.layout_generation = inode.layout->generation;
  capability.client = operation.call().header.client;
  capability.session_epoch = operation.call().header.session_epoch;
  capability.uid = operation.who().uid;
  capability.gid = operation.who().gid;
  capability.project = inode.attributes.project;
  capability.expiry = WallTime{operation.now().ns + options.capability_life.count()};
  capability.mac = sign(options.server_key.used, options.fs, capability);
  return capability;
}

job::Task<Result<Capability>> OpenTable::add(Operation& operation, InodeRecord& inode, std::uint8_t open_flags,
                                             bool fresh) {
  const Rights rights = rights_of(open_flags);
  const bool writes = allows(rights, Rights::kWrite);
  const wire::RequestHeader& header = operation.call().header;
  SPATE_CHECK(inode.is_regular() && rights != Rights::kNone);
  if (writes && !fresh) {
    SPATE_CO_TRY(std::ignore, operation.lock({inode.handle()}));  // many clients may open one file at once
  }
  SPATE_CO_TRY(std::ignore, co_await check_open(operation, header.client, header.session_epoch));
  const StoreKey key = open_key(inode.handle(), header.client, header.session_epoch);
  OpenRecord record;
  bool had_one = false;
  if (!fresh) {
    SPATE_CO_TRY(const auto found, co_await operation.get<OpenRecord>(key));
    had_one = found.has_value();
    record = found.value_or(record);
  }
  if (std::max(record.readers, record.writers) >= kMaxOpens)
    co_return Error::told(Errc::kBusy, "this client has the file open too many times");
  record.readers += allows(rights, Rights::kRead) ? 1U : 0U;
  record.writers += writes ? 1U : 0U;
  operation.put(key, record);
  operation.deferred().when_committed([hint = std::make_unique<Hint>(*this, header.client, inode.handle()), had_one]() {
    if (!had_one) hint->keep();
  });
  if (writes) {
    begin_write(inode);
    inode.written_by_users =
        inode.written_by_users || !is_root(operation.who()) || (open_flags & wire::kOpenByUser) != 0;
    inode.attributes.size_known = false;
    // If a crash lost the open, the server would trust the file's size while somebody writes. (For a new file, the
    // crash would lose the file as well.)
    if (!fresh) operation.deferred().finish_with([&core = core_] { return core.sync(); });
  }
  co_return capability_for(operation, inode, rights);
}

job::Task<Result<wire::OpenReply>> OpenTable::renew(Operation& operation, InodeRecord inode, std::uint8_t open_flags) {
  const Rights rights = rights_of(open_flags);
  const wire::RequestHeader& header = operation.call().header;
  const StoreKey key = open_key(inode.handle(), header.client, header.session_epoch);
  SPATE_CO_TRY(const auto record, co_await operation.get<OpenRecord>(key));
  // The open, or the reading part of one, was lost with an earlier epoch, or by a crash of this server's machine. Opens
  // the file again for what is missing, under its present mode.
  std::uint8_t missing = open_flags;
  if (record && record->readers > 0) missing = static_cast<std::uint8_t>(missing & ~wire::kOpenRead);
  if (record && record->writers > 0) missing = static_cast<std::uint8_t>(missing & ~wire::kOpenWrite);
  if (rights_of(missing) != Rights::kNone || rights == Rights::kNone) {
    const Capability whole = capability_for(operation, inode, rights);
    SPATE_CO_TRY(auto opened, co_await open_existing(operation, std::move(inode), missing));
    if (rights != Rights::kNone) opened.capability = whole;
    co_return opened;
  }
  SPATE_CO_TRY(std::ignore, after_truncations(operation, inode));
  wire::OpenReply reply;
  reply.capability = capability_for(operation, inode, rights);
  reply.object.attributes = inode.attributes;
  reply.object.layout = inode.layout;
  co_return reply;
}

job::Task<Result<void>> OpenTable::drop(Operation& operation, Handle handle, Rights rights) {
  const wire::RequestHeader& header = operation.call().header;
  const StoreKey key = open_key(handle, header.client, header.session_epoch);
  SPATE_CO_TRY(auto record, co_await operation.get<OpenRecord>(key));
  const std::uint32_t readers = allows(rights, Rights::kRead) ? 1 : 0;
  const std::uint32_t writers = allows(rights, Rights::kWrite) ? 1 : 0;
  // A crash of this server's machine may have taken an open for reading. The close of that one has ended another one,
  // which may also write.
  const bool has = record && (writers > 0 ? record->writers > 0 : record->readers > 0);
  if (!has) co_return Error::told(Errc::kBadDescriptor, "this session does not have the file open with these rights");
  record->readers -= std::min(readers, record->readers);
  record->writers -= writers;
  if (record->readers + std::uint64_t{record->writers} > 0) {
    operation.put(key, *record);
    co_return {};
  }
  operation.erase(key);
  operation.deferred().when_committed([this, client = header.client, handle] { count(client, handle, -1); });
  co_return {};
}

job::Task<Result<void>> OpenTable::release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) {
  const auto held = held_.find(client);
  if (held == held_.end()) co_return {};
  std::vector<Handle> files;
  for (const auto& [handle, opens] : held->second) files.push_back(handle);
  Result<void> failure;
  for (const Handle handle : files) {
    InternalChange change = [this, client, below_epoch, handle](Operation& operation) {
      return release_file(operation, client, below_epoch, handle);
    };
    const auto done = co_await core_.run_internal(std::move(change), trove::Durability::kProcess, stop);
    if (done) continue;
    if (planted(Defect::kAllOrNoOpens)) co_return done;
    const bool damaged = done.code() == Errc::kCorrupt || done.code() == Errc::kFormatTooNew;
    if (damaged) {  // no further attempt helps, and the session's other opens must be released
      SPATE_LOG("server/meta", error,
                "an open of a session that has ended stays: run spate fsck client={} handle={} error={}", client.value,
                handle.value, done.error().message());
    } else if (failure) {
      failure = done.error();
    }
  }
  co_return failure;
}

job::Task<Result<void>> OpenTable::release_file(Operation& operation, ClientId client, std::uint32_t below_epoch,
                                                Handle handle) {
  SPATE_CO_TRY(std::ignore, operation.lock({handle}));
  trove::KeyRange range = opens_of(handle, client);
  range.limit = kOpensAtOnce;
  const auto read = co_await operation.store().range(range);
  if (read.status != Errc::kOk) co_return read.status;
  std::uint32_t writers = 0;
  int ended = 0;
  for (const trove::KeyValue& entry : read.entries) {
    const auto key = parse_open_key(entry.key);
    if (!key || key->epoch >= below_epoch) continue;
    SPATE_CO_TRY(const OpenRecord record, decode_record<OpenRecord>(entry.value));
    writers += record.writers;
    ++ended;
    operation.store().erase(entry.key);
  }
  if (ended == 0) co_return {};
  operation.deferred().when_committed([this, client, handle, ended] { count(client, handle, -ended); });
  SPATE_CO_TRY(auto inode, co_await operation.get<InodeRecord>(inode_key(handle)));
  if (!inode) co_return {};
  if (end_writes(*inode, writers)) leave_unsettled(operation, *inode);
  auto put = co_await put_or_remove(operation, *inode);
  co_return put;
}

}  // namespace spate::meta
