// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/revoked_keys.h"

#include <algorithm>
#include <map>

#include "server/meta/store/keys.h"

namespace spate::meta {
namespace {

constexpr std::string_view kRevokedKeys = "revoked_keys";

struct Noted {
  WallTime since;
  WallTime until;
  bool may_go(WallTime now) const { return until.ns != 0 && until.ns <= now.ns - Duration(RevokedKeys::kKept).count(); }
};
using Revocations = std::map<KeyId, Noted>;

Revocations entries_of(const RevokedKeysRecord& record) {
  Revocations entries;
  for (std::size_t i = 0; i < record.keys.size(); ++i)
    entries[record.keys[i].id] = {record.keys[i].since, record.ends.empty() ? WallTime() : record.ends[i]};
  return entries;
}

RevokedKeysRecord record_of(const Revocations& entries) {
  RevokedKeysRecord record;
  bool ends = false;
  for (const auto& [id, entry] : entries) {
    record.keys.push_back({id, entry.since});
    record.ends.push_back(entry.until);
    ends = ends || entry.until.ns != 0;
  }
  if (!ends) record.ends.clear();
  return record;
}

}  // namespace

job::Task<Result<void>> RevokedKeys::start() {
  job::Transaction transaction = store_.begin();
  auto read = co_await transaction.get(global_key(kRevokedKeys));
  if (read.status != Errc::kOk) co_return Error(read.status, "revoked keys in the meta store");
  RevokedKeysRecord record;
  if (read.value) {
    SPATE_CO_TRY(record, decode_record<RevokedKeysRecord>(*read.value));
  }
  use(std::move(record));
  co_return {};
}

void RevokedKeys::use(RevokedKeysRecord record) {
  record_ = std::move(record);
  ids_.clear();
  for (const wire::RevokedKey& key : record_.keys) ids_.insert(key.id);
  if (listener_) listener_(ids_);
}

job::Task<Result<void>> RevokedKeys::add(std::vector<Revocation> keys, job::StopToken stop) {
  SPATE_CO_TRY(const job::Semaphore::Units turn, co_await turn_.acquire(1, stop));
  if (keys.empty()) co_return {};
  Revocations entries = entries_of(record_);
  const WallTime now = store_.executor().clock().wall();
  for (const Revocation& key : keys) {
    if (key.id == KeyId{}) co_return Error::told(Errc::kInvalidArgument, "a key id of zeros is not valid");
    Noted& entry = entries.try_emplace(key.id, Noted{now, key.until}).first->second;
    entry.until = std::max(entry.until, key.until);
  }
  std::erase_if(entries, [now](const auto& item) { return item.second.may_go(now); });
  if (entries.size() > wire::kMaxRevoked) {
    co_return Error::told(Errc::kOutOfRange,
                          "4096 keys are revoked already: change the client key (docs/operating.md, New keys), which "
                          "ends all keys of users, and issue new ones");
  }
  RevokedKeysRecord record = record_of(entries);
  if (record == record_) co_return {};
  job::Transaction transaction = store_.begin();
  transaction.put(global_key(kRevokedKeys), encoded(record));
  const auto done = co_await transaction.commit(trove::Durability::kMachine);
  if (done.status != Errc::kOk) co_return Error(done.status, "revoked keys of the meta store");
  use(std::move(record));
  co_return {};
}

}  // namespace spate::meta
