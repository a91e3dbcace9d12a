// SPDX-License-Identifier: Apache-2.0
// BufferPool: all buffers for bulk data of one server. Its size bounds the memory that clients can make the server use.
#pragma once

#include <coroutine>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bmi/network.h"
#include "job/executor.h"
#include "metrics/metrics.h"
#include "model/ids.h"

namespace spate::flow {

/// The largest unit of bulk data, bytes.
constexpr std::uint64_t kMaxUnitBytes = 8ULL << 20U;
/// Extra room of a buffer whose contents go directly to or from a device, which moves whole blocks only.
constexpr std::uint64_t kBlockSlackBytes = 256 * 1024;
constexpr std::uint64_t kMaxBufferBytes = kMaxUnitBytes + kBlockSlackBytes;
constexpr std::uint64_t kMinUnitBytes = 4096;

/// The source of a pool's memory. Not thread-safe.
class BufferSource {
 public:
  virtual ~BufferSource() = default;
  /// Memory of `size` bytes, aligned to pages. The pool asks for no more than its total.
  virtual MutableByteView allocate(std::uint64_t size) = 0;
  virtual void free(MutableByteView memory) = 0;
};

struct BufferPoolOptions {
  /// Size of all buffers together, both in use and kept for reuse, bytes. At least 2 * largest_bytes; a smaller value
  /// is raised.
  std::uint64_t total_bytes = 256ULL << 20U;
  /// The largest buffer that callers request, bytes.
  std::uint64_t largest_bytes = kMaxBufferBytes;
  /// Distinguishes the pools of one server in its metrics. Empty: the only pool, or the first.
  std::string name = {};
};

/// Takes memory from Network::mem_alloc (registered where a module registers memory), or from another source, when it
/// is first needed, and keeps it for reuse. Clients wait in turn and get one buffer a turn. A client that holds half of
/// the pool waits even if buffers are free, so that a stalled client leaves room for the others. Not thread-safe: one
/// executor. Not movable. The pool outlives its buffers.
class BufferPool {
 public:
  BufferPool(bmi::Network& network, job::Executor& executor, const BufferPoolOptions& options,
             metrics::Registry& metrics);
  BufferPool(std::shared_ptr<BufferSource> source, job::Executor& executor, const BufferPoolOptions& options,
             metrics::Registry& metrics);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  /// A buffer in use. Move-only.
  class PooledBuffer {
   public:
    PooledBuffer() = default;
    PooledBuffer(BufferPool& pool, ClientId owner, MutableByteView memory)
        : pool_(&pool), owner_(owner), memory_(memory) {}
    PooledBuffer(PooledBuffer&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), owner_(other.owner_), memory_(std::exchange(other.memory_, {})) {}
    PooledBuffer& operator=(PooledBuffer&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(owner_, other.owner_);
      std::swap(memory_, other.memory_);
      return *this;
    }
    PooledBuffer(const PooledBuffer&) = delete;
    PooledBuffer& operator=(const PooledBuffer&) = delete;
    ~PooledBuffer() {
      if (pool_ != nullptr) pool_->give_back(owner_, memory_);
    }
    MutableByteView view() const { return memory_; }
    explicit operator bool() const { return pool_ != nullptr; }
    bool is_from(const BufferPool* pool) const { return pool_ == pool; }

   private:
    BufferPool* pool_ = nullptr;
    ClientId owner_;
    MutableByteView memory_;
  };

  /// A buffer, if `owner` can have one now without overtaking another client. `size`:
  /// kMinUnitBytes..BufferPoolOptions::largest_bytes.
  std::optional<PooledBuffer> try_acquire(ClientId owner, std::uint64_t size);
  /// Waits for a buffer. Yields a Result<PooledBuffer>; if stopped before: the token's reason. Never wait while holding
  /// a buffer whose transfer does not progress by itself: the pool could be full of such buffers, which is a deadlock.
  auto acquire(ClientId owner, std::uint64_t size, job::StopToken stop) { return Awaiter(*this, owner, size, stop); }

  std::uint64_t total_bytes() const { return total_; }
  std::uint64_t used_bytes() const { return used_; }

 private:
  class Awaiter {
   public:
    Awaiter(BufferPool& pool, ClientId owner, std::uint64_t size, job::StopToken stop)
        : pool_(pool), owner_(owner), size_(size), stop_(stop) {}
    bool await_ready();
    void await_suspend(std::coroutine_handle<> handle);
    Result<PooledBuffer> await_resume();

   private:
    friend class BufferPool;
    void give_up();
    BufferPool& pool_;
    ClientId owner_;
    std::uint64_t size_;
    job::StopToken stop_;
    job::StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    std::optional<PooledBuffer> lease_;
  };
  struct Owner {
    std::uint64_t held = 0;
    std::deque<Awaiter*> waiting;
    bool empty() const { return held == 0 && waiting.empty(); }
  };

  void give_back(ClientId owner, MutableByteView memory);
  PooledBuffer grant(ClientId owner, std::uint64_t size);
  MutableByteView take_memory(std::uint64_t size);
  void serve();
  void forget_if_empty(ClientId owner);
  bool over_share(const Owner& owner, std::uint64_t size) const { return owner.held + size > total_ / 2; }

  const std::shared_ptr<BufferSource> source_;
  job::Executor& executor_;
  const std::uint64_t total_;
  const std::uint64_t largest_;
  std::uint64_t used_ = 0;
  std::uint64_t spare_bytes_ = 0;
  std::map<std::uint64_t, std::vector<std::byte*>> spare_;  // by size; last used first out: it is still in the caches
  std::unordered_map<ClientId, Owner> owners_;
  std::deque<ClientId> turns_;  // owners with waiters, next first
  bool short_of_room_ = false;  // the client whose turn it is waits until the pool has memory again
  metrics::Gauge used_gauge_;
  metrics::Counter waits_;
};

using PooledBuffer = BufferPool::PooledBuffer;

}  // namespace spate::flow
