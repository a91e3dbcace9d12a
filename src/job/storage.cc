// SPDX-License-Identifier: Apache-2.0
#include "job/storage.h"

#include <array>

namespace spate::job {
namespace {

/// An idle store need not be asked. But its descriptor may still be readable, since it woke us for the last operation.
/// Then ask once more, or the executor would never sleep again.
template <typename Store>
bool prepare_store(Store& store, std::size_t in_flight, bool& armed) {
  if (in_flight == 0 && !armed) return true;
  armed = in_flight > 0;
  return store.prepare_to_wait();
}

}  // namespace

StorageContext::StorageContext(trove::Bytestreams& store, Executor& executor) : store_(store), executor_(executor) {
  executor_.add_source(*this);
}

StorageContext::~StorageContext() {
  SPATE_CHECK(in_flight_ == 0);
  executor_.remove_source(*this);
}

bool StorageContext::Awaiter::await_ready() {
  // A large piece that the post executes takes as long as many messages. Send the collected messages before it.
  constexpr std::uint64_t kLong = 64U << 10U;
  std::uint64_t bytes = 0;
  for (const MutableByteView piece : request_.memory) bytes += piece.size();
  if (bytes >= kLong) context_.executor_.flush_sources();
  if (context_.store_.post(request_, this, result_)) return true;
  ++context_.in_flight_;
  return false;
}

std::size_t StorageContext::poll() {
  if (in_flight_ == 0) return 0;
  std::array<trove::BytestreamCompletion, 32> completions;
  const std::size_t n = store_.test(completions);
  for (std::size_t i = 0; i < n; ++i) {
    auto* awaiter = static_cast<Awaiter*>(completions[i].user);
    awaiter->result_ = std::move(completions[i]);
    executor_.schedule(awaiter->handle_);
  }
  in_flight_ -= n;
  return n;
}

bool StorageContext::prepare_to_wait() { return prepare_store(store_, in_flight_, armed_); }

KeyvalContext::KeyvalContext(trove::Keyval& store, Executor& executor) : store_(store), executor_(executor) {
  executor_.add_source(*this);
}

KeyvalContext::~KeyvalContext() {
  SPATE_CHECK(in_flight_ == 0);
  executor_.remove_source(*this);
}

std::size_t KeyvalContext::poll() {
  if (in_flight_ == 0) return 0;
  std::array<trove::KeyvalCompletion, 32> completions;
  const std::size_t n = store_.test(completions);
  for (std::size_t i = 0; i < n; ++i) {
    auto* waiter = static_cast<Waiter*>(completions[i].user);
    waiter->result = std::move(completions[i]);
    executor_.schedule(waiter->handle);
  }
  in_flight_ -= n;
  return n;
}

bool KeyvalContext::prepare_to_wait() { return prepare_store(store_, in_flight_, armed_); }

}  // namespace spate::job
