// SPDX-License-Identifier: Apache-2.0
// StorageContext and KeyvalContext: trove stores as sources of the executor, whose operations coroutines can await.
#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

#include "job/executor.h"
#include "trove/bytestream.h"
#include "trove/keyval.h"

namespace spate::job {

/// One target's bytestreams on one executor. Not thread-safe. The store outlives it. Every operation must have ended
/// when it is destroyed.
class StorageContext final : public Source {
 public:
  StorageContext(trove::Bytestreams& store, Executor& executor);
  ~StorageContext() override;
  StorageContext(const StorageContext&) = delete;
  StorageContext& operator=(const StorageContext&) = delete;

  trove::Bytestreams& store() { return store_; }

  class Awaiter {
   public:
    Awaiter(StorageContext& context, const trove::BytestreamRequest& request) : context_(context), request_(request) {}
    bool await_ready();
    void await_suspend(std::coroutine_handle<> handle) { handle_ = handle; }
    trove::BytestreamCompletion await_resume() { return std::move(result_); }

   private:
    friend class StorageContext;
    StorageContext& context_;
    const trove::BytestreamRequest& request_;
    trove::BytestreamCompletion result_;
    std::coroutine_handle<> handle_;
  };
  /// Runs one operation to its end. Storage operations cannot be cancelled, since the store uses their memory until
  /// they end. `request` outlives the await.
  auto run(const trove::BytestreamRequest& request) { return Awaiter(*this, request); }

  std::size_t poll() override;
  int wait_descriptor() const override { return store_.wait_descriptor(); }
  bool prepare_to_wait() override;
  void woken_for_nothing() override { armed_ = true; }

 private:
  trove::Bytestreams& store_;
  Executor& executor_;
  std::size_t in_flight_ = 0;
  bool armed_ = false;  // the store has been asked to make its descriptor readable
};

class KeyvalContext;

/// A trove transaction whose reads and commit coroutines can await. Destroy it only while no operation of it is
/// awaited.
class Transaction {
 public:
  Transaction(KeyvalContext& context, std::unique_ptr<trove::Transaction> inner)
      : context_(&context), inner_(std::move(inner)) {}

  /// One operation under way; yields its completion.
  template <typename Post>
  class Awaiter;

  auto get(ByteView key, trove::ReadMode mode = trove::ReadMode::kChecked);
  auto get_many(std::span<const Bytes> keys, trove::ReadMode mode = trove::ReadMode::kChecked);
  auto range(const trove::KeyRange& range);
  auto commit(trove::Durability durability);
  void note_read(ByteView key) { inner_->note_read(key); }
  void note_range_read(ByteView begin, ByteView end) { inner_->note_range_read(begin, end); }
  void put(ByteView key, ByteView value) { inner_->put(key, value); }
  void erase(ByteView key) { inner_->erase(key); }

 private:
  KeyvalContext* context_;
  std::unique_ptr<trove::Transaction> inner_;
};

/// One key/value store on one executor. Not thread-safe. The store outlives it. Every operation must have ended when it
/// is destroyed.
class KeyvalContext final : public Source {
 public:
  KeyvalContext(trove::Keyval& store, Executor& executor);
  ~KeyvalContext() override;
  KeyvalContext(const KeyvalContext&) = delete;
  KeyvalContext& operator=(const KeyvalContext&) = delete;

  trove::Keyval& store() { return store_; }
  Executor& executor() { return executor_; }
  Transaction begin() { return Transaction(*this, store_.begin()); }
  /// Makes everything durable that was committed before.
  auto sync();

  std::size_t poll() override;
  int wait_descriptor() const override { return store_.wait_descriptor(); }
  bool prepare_to_wait() override;
  void woken_for_nothing() override { armed_ = true; }

  /// A posted keyval operation's user pointer points to its Waiter.
  struct Waiter {
    trove::KeyvalCompletion result;
    std::coroutine_handle<> handle;
  };
  void started() { ++in_flight_; }

 private:
  trove::Keyval& store_;
  Executor& executor_;
  std::size_t in_flight_ = 0;
  bool armed_ = false;  // the store has been asked to make its descriptor readable
};

/// `post` posts the operation: bool(void* user, KeyvalCompletion& done).
template <typename Post>
class Transaction::Awaiter {
 public:
  Awaiter(KeyvalContext& context, Post post) : context_(context), post_(std::move(post)) {}
  bool await_ready() {
    if (post_(static_cast<void*>(&waiter_), waiter_.result)) return true;
    context_.started();
    return false;
  }
  void await_suspend(std::coroutine_handle<> handle) { waiter_.handle = handle; }
  trove::KeyvalCompletion await_resume() { return std::move(waiter_.result); }

 private:
  KeyvalContext& context_;
  Post post_;
  KeyvalContext::Waiter waiter_;
};

inline auto Transaction::get(ByteView key, trove::ReadMode mode) {
  auto post = [t = inner_.get(), key, mode](void* user, trove::KeyvalCompletion& done) {
    return t->post_get(key, mode, user, done);
  };
  return Awaiter<decltype(post)>(*context_, post);
}

inline auto Transaction::get_many(std::span<const Bytes> keys, trove::ReadMode mode) {
  auto post = [t = inner_.get(), keys, mode](void* user, trove::KeyvalCompletion& done) {
    return t->post_get_many(keys, mode, user, done);
  };
  return Awaiter<decltype(post)>(*context_, post);
}

inline auto Transaction::range(const trove::KeyRange& range) {
  auto post = [t = inner_.get(), r = &range](void* user, trove::KeyvalCompletion& done) {
    return t->post_range(*r, user, done);
  };
  return Awaiter<decltype(post)>(*context_, post);
}

inline auto Transaction::commit(trove::Durability durability) {
  auto post = [t = inner_.get(), durability](void* user, trove::KeyvalCompletion& done) {
    return t->post_commit(durability, user, done);
  };
  return Awaiter<decltype(post)>(*context_, post);
}

inline auto KeyvalContext::sync() {
  auto post = [s = &store_](void* user, trove::KeyvalCompletion& done) { return s->post_sync(user, done); };
  return Transaction::Awaiter<decltype(post)>(*this, post);
}

}  // namespace spate::job
