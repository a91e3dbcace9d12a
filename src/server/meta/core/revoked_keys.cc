// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/revoked_keys.h"

#include <algorithm>

#include "server/meta/store/keys.h"

namespace spate::meta {
namespace {

constexpr std::string_view kRevokedKeys = "revoked_keys";

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

job::Task<Result<void>> RevokedKeys::add(std::vector<KeyId> ids, job::StopToken stop) {
  SPATE_CO_TRY(const job::Semaphore::Units turn, co_await turn_.acquire(1, stop));
  RevokedKeysRecord record = record_;
  const WallTime now = store_.executor().clock().wall();
  for (const KeyId& id : ids) {
    if (id == KeyId{}) co_return Error::told(Errc::kInvalidArgument, "zeros are the id of no key");
    const auto place = std::ranges::lower_bound(record.keys, id, {}, &wire::RevokedKey::id);
    if (place == record.keys.end() || place->id != id) record.keys.insert(place, {id, now});
    if (record.keys.size() > wire::kMaxRevoked) {
      co_return Error::told(Errc::kOutOfRange,
                            "4096 keys are revoked already: change the client key (docs/operating.md, New keys), which "
                            "ends all keys of users, and issue new ones");
    }
  }
  if (record == record_) co_return {};
  job::Transaction transaction = store_.begin();
  transaction.put(global_key(kRevokedKeys), encoded(record));
  const auto done = co_await transaction.commit(trove::Durability::kMachine);
  if (done.status != Errc::kOk) co_return Error(done.status, "revoked keys of the meta store");
  use(std::move(record));
  co_return {};
}

}  // namespace spate::meta
