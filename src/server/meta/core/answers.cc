// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/answers.h"

#include "server/meta/store/keys.h"

namespace spate::meta {
namespace {

constexpr std::size_t kAnswersAtOnce = 64;

/// A new process of a client does not know which kind of close the earlier process has sent.
wire::Op kind_of(wire::Op op) { return op == wire::Op::kCloseWriters ? wire::Op::kClose : op; }

}  // namespace

AnswerTable::Client& AnswerTable::client(ClientId id) {
  std::unique_ptr<Client>& entry = clients_[id];
  if (entry == nullptr) entry = std::make_unique<Client>();
  return *entry;
}

AnswerTable::RequestSlot& AnswerTable::slot_of(const rpc::Call& call) {
  Client& its = client(call.header.client);
  const std::size_t index = call.header.id.slot;
  SPATE_CHECK(index < slots_);  // enter() has refused larger ones
  if (its.slots.size() <= index) its.slots.resize(index + 1);
  if (its.slots[index] == nullptr) its.slots[index] = std::make_unique<RequestSlot>(store_.executor());
  return *its.slots[index];
}

job::Task<Result<AnswerTable::Turn>> AnswerTable::enter(const rpc::Call& call) {
  if (call.header.id.slot >= slots_ || !call.header.client) {
    co_return Error::told(Errc::kInvalidArgument, "this session has request slots 0 to " + std::to_string(slots_ - 1));
  }
  if (client(call.header.client).forgotten) co_return Errc::kSessionUnknown;
  SPATE_CO_TRY(Turn turn, co_await slot_of(call).turn.acquire(1, call.stop));
  if (client(call.header.client).forgotten) co_return Errc::kSessionUnknown;  // may have changed
  co_return turn;
}

job::Task<Result<std::optional<AnswerRecord>>> AnswerTable::find(job::Transaction& store, const rpc::Call& call) {
  const std::uint64_t sequence = call.header.id.sequence;
  RequestSlot& slot = slot_of(call);
  if (slot.known && sequence > slot.last) co_return std::optional<AnswerRecord>();
  // The read is not checked at commit: only the holder of the turn writes this record.
  const StoreKey key = answer_key(call.header.client, call.header.id.slot);
  const auto read = co_await store.get(key, trove::ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return Error(read.status, "answer to an earlier request");
  AnswerRecord record;
  if (read.value) {
    SPATE_CO_TRY(record, decode_record<AnswerRecord>(*read.value));
  }
  slot.last = record.sequence;
  slot.known = true;
  if (!read.value || sequence > slot.last) co_return std::optional<AnswerRecord>();
  if (sequence < slot.last) co_return Errc::kForgottenRequest;
  if (kind_of(record.op) != kind_of(call.header.op))
    co_return Error::told(Errc::kProtocol, "two requests under one request id");
  co_return std::optional<AnswerRecord>(std::move(record));
}

void AnswerTable::remember(job::Transaction& store, const rpc::Call& call, const Result<Bytes>& answer,
                           Handle truncates) {
  AnswerRecord record;
  record.sequence = call.header.id.sequence;
  record.op = call.header.op;
  record.status = answer.code();
  if (answer) {
    record.body = *answer;
  } else {
    record.context = wire::context_of(answer.error());
  }
  record.truncates = truncates;
  slot_of(call).known = false;  // until the commit is known to have succeeded, since a failed one may still take effect
  store.put(answer_key(call.header.client, call.header.id.slot), encoded(record));
}

void AnswerTable::confirm(const rpc::Call& call) {
  RequestSlot& slot = slot_of(call);
  slot.last = call.header.id.sequence;
  slot.known = true;
}

job::Task<Result<bool>> AnswerTable::erase_some(ClientId client) {
  job::Transaction transaction = store_.begin();
  trove::KeyRange range = answers_of(client);
  range.limit = kAnswersAtOnce;
  range.mode = trove::ReadMode::kSnapshot;
  const auto read = co_await transaction.range(range);
  if (read.status != Errc::kOk) co_return read.status;
  for (const trove::KeyValue& answer : read.entries) transaction.erase(answer.key);
  const auto done = co_await transaction.commit(trove::Durability::kProcess);
  if (done.status != Errc::kOk) co_return done.status;
  co_return read.more;
}

job::Task<Result<void>> AnswerTable::forget(ClientId id, job::StopToken stop) {
  Client& its = client(id);
  its.forgotten = true;
  for (std::size_t i = 0; i < its.slots.size(); ++i) {
    if (its.slots[i] == nullptr) continue;
    // When this has the turn, all earlier requests have ended. No later one gets in.
    SPATE_CO_TRY(const Turn turn, co_await its.slots[i]->turn.acquire(1, stop));
  }
  for (bool more = true; more;) {
    SPATE_CO_TRY(more, co_await erase_some(id));
  }
  clients_.erase(id);
  co_return {};
}

}  // namespace spate::meta
