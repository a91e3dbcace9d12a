// SPDX-License-Identifier: Apache-2.0
#include "tests/group/group_process.h"

#include <algorithm>

#include "base/codec.h"

namespace spate::group {
namespace {

job::ExecutorOptions shuffled(Random& random) {
  job::ExecutorOptions options;
  options.shuffle = &random;
  return options;
}

Bytes key_of(char kind, std::uint32_t number) {
  Bytes out;
  Encoder encoder(out);
  encoder.u8(static_cast<std::uint8_t>(kind));
  encoder.u32(number);
  return out;
}

Bytes pair_of(std::uint64_t first, std::uint64_t second) {
  Bytes out;
  Encoder encoder(out);
  encoder.u64(first);
  encoder.u64(second);
  return out;
}

}  // namespace

GroupProcess::GroupProcess(ManualClock& world, GroupMachine& machine, coord::SimService& service, Link& link,
                           Random& random, GroupProcessOptions options)
    : clock_(world, options.clock_rate),
      executor_(clock_, shuffled(random)),
      store_(*machine.disk, world, random),
      keyval_(store_, trove::ReplicatedOptions{options.kept_entries}),
      records_(std::make_unique<job::KeyvalContext>(keyval_, executor_)),
      coordinator_(service, executor_, options.member.self.value),
      member_(std::make_unique<Member>(options.member, coordinator_, link, *records_, keyval_)),
      gate_(executor_),
      started_(executor_) {
  job::spawn(gate_, run());
}

job::Task<void> GroupProcess::run() {
  std::ignore = co_await member_->start();
  started_.set();
}

void GroupProcess::die() {
  if (!std::exchange(alive_, false)) return;
  store_.kill();
  stopping_.request_stop();
  job::spawn(gate_, end());
}

job::Task<void> GroupProcess::end() {
  std::ignore = co_await started_.wait();
  co_await member_->stop();
  ended_ = true;
}

void GroupProcess::take(std::shared_ptr<const Message> message, AnswerAction action) {
  if (alive_ && started_.is_set()) job::spawn(gate_, answer(std::move(message), std::move(action)));
}

job::Task<void> GroupProcess::answer(std::shared_ptr<const Message> message, AnswerAction action) {
  const Answer answer = co_await member_->answer(std::move(message));
  if (alive_) action(answer);
}

bool holds(const trove::SimKeyvalDisk& disk, const CountRequest& request) {
  const Bytes key = key_of('a', request.client);
  const trove::Batch contents = disk.contents();
  const auto found = std::ranges::find(contents, key, &trove::BatchWrite::key);
  return found != contents.end() && Decoder(*found->value).u64() >= request.number;
}

void GroupProcess::count(CountRequest request, CountAction action) {
  if (alive_) job::spawn(gate_, count_and_tell(request, std::move(action)));
}

job::Task<void> GroupProcess::count_and_tell(CountRequest request, CountAction action) {
  const auto counted = co_await count_once(request);
  if (!alive_) co_return;
  if (counted) {
    action(*counted);
  } else {
    action(std::nullopt);
  }
}

job::Task<Result<std::uint64_t>> GroupProcess::count_once(CountRequest request) {
  if (!member_->led().is_set() || member_->resigned().is_set()) co_return Errc::kCancelled;
  if (request.increments && keyval_.lacks_copies()) co_return Errc::kTimeout;
  const Bytes counter_key = key_of('c', request.counter);
  const Bytes answer_key = key_of('a', request.client);
  for (;;) {
    job::Transaction store = records_->begin();
    const auto counter = co_await store.get(counter_key);
    if (counter.status != Errc::kOk) co_return counter.status;
    std::uint64_t value = counter.value ? Decoder(*counter.value).u64() : 0;
    if (request.increments) {
      const auto known = co_await store.get(answer_key);
      if (known.status != Errc::kOk) co_return known.status;
      Decoder in(known.value ? ByteView(*known.value) : ByteView());
      const std::uint64_t number = in.u64();
      if (in.ok() && number > request.number) co_return Errc::kForgottenRequest;  // an old copy of the request
      if (in.ok() && number == request.number) {
        value = in.u64();
      } else {
        ++value;
        const Bytes counted = pair_of(value, 0);
        const Bytes remembered = pair_of(request.number, value);
        store.put(counter_key, counted);
        store.put(answer_key, remembered);
        const auto durability = request.durable ? trove::Durability::kMachine : trove::Durability::kProcess;
        const auto done = co_await store.commit(durability);
        if (done.status == Errc::kConflict) continue;
        if (done.status != Errc::kOk) co_return done.status;
      }
    }
    // A commit has been synced already. The value that a read returns may not be synced yet.
    if (request.durable) {
      const auto synced = co_await records_->sync();
      if (synced.status != Errc::kOk) co_return synced.status;
    }
    SPATE_CO_TRY(std::ignore, co_await member_->pass(request.increments, stopping_));
    co_return value;
  }
}

void GroupProcess::hand_over() {
  if (alive_) job::spawn(gate_, hand_over_now());
}

job::Task<void> GroupProcess::hand_over_now() { std::ignore = co_await member_->hand_over(stopping_); }

}  // namespace spate::group
