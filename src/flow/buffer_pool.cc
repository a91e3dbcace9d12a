// SPDX-License-Identifier: Apache-2.0
#include "flow/buffer_pool.h"

#include <algorithm>

namespace spate::flow {

namespace {

class NetworkMemory final : public BufferSource {
 public:
  explicit NetworkMemory(bmi::Network& network) : network_(network) {}
  MutableByteView allocate(std::uint64_t size) override { return network_.mem_alloc(size); }
  void free(MutableByteView memory) override { network_.mem_free(memory); }

 private:
  bmi::Network& network_;
};

metrics::Labels labels_of(const std::string& name) {
  return name.empty() ? metrics::Labels() : metrics::Labels{{"pool", name}};
}

}  // namespace

BufferPool::BufferPool(bmi::Network& network, job::Executor& executor, const BufferPoolOptions& options,
                       metrics::Registry& metrics)
    : BufferPool(std::make_unique<NetworkMemory>(network), executor, options, metrics) {}

BufferPool::BufferPool(std::shared_ptr<BufferSource> source, job::Executor& executor, const BufferPoolOptions& options,
                       metrics::Registry& metrics)
    : source_(std::move(source)),
      executor_(executor),
      total_(std::max(options.total_bytes, 2 * options.largest_bytes)),
      largest_(options.largest_bytes),
      used_gauge_(metrics, "spate_flow_buffers_used_bytes", labels_of(options.name)),
      waits_(metrics, "spate_flow_buffer_waits_total", labels_of(options.name)) {}

BufferPool::~BufferPool() {
  SPATE_CHECK(used_ == 0 && turns_.empty());
  for (const auto& [size, list] : spare_) {
    for (std::byte* memory : list) source_->free({memory, size});
  }
}

std::optional<PooledBuffer> BufferPool::try_acquire(ClientId owner, std::uint64_t size) {
  SPATE_CHECK(size >= kMinUnitBytes && size <= largest_);
  if (short_of_room_ || used_ + size > total_) return std::nullopt;
  const auto found = owners_.find(owner);
  if (found != owners_.end() && (!found->second.waiting.empty() || over_share(found->second, size)))
    return std::nullopt;
  return grant(owner, size);
}

PooledBuffer BufferPool::grant(ClientId owner, std::uint64_t size) {
  used_ += size;
  owners_[owner].held += size;
  used_gauge_.set(static_cast<std::int64_t>(used_));
  return PooledBuffer(*this, owner, take_memory(size));
}

MutableByteView BufferPool::take_memory(std::uint64_t size) {
  const auto found = spare_.find(size);
  if (found != spare_.end()) {
    std::byte* memory = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) spare_.erase(found);
    spare_bytes_ -= size;
    return {memory, size};
  }
  // Kept buffers count as used memory, so those of other sizes are freed to make room.
  while (used_ + spare_bytes_ > total_) {
    const auto largest = std::prev(spare_.end());
    source_->free({largest->second.back(), largest->first});
    spare_bytes_ -= largest->first;
    largest->second.pop_back();
    if (largest->second.empty()) spare_.erase(largest);
  }
  return source_->allocate(size);
}

void BufferPool::give_back(ClientId owner, MutableByteView memory) {
  spare_[memory.size()].push_back(memory.data());
  spare_bytes_ += memory.size();
  used_ -= memory.size();
  used_gauge_.set(static_cast<std::int64_t>(used_));
  owners_[owner].held -= memory.size();
  forget_if_empty(owner);
  serve();
}

void BufferPool::forget_if_empty(ClientId owner) {
  const auto found = owners_.find(owner);
  if (found != owners_.end() && found->second.empty()) owners_.erase(found);
}

/// Grants buffers in turn. An owner above its share is passed over. If the pool has no room for the next owner, the
/// others wait behind it.
void BufferPool::serve() {
  short_of_room_ = false;
  for (std::size_t passed = 0; passed < turns_.size();) {
    const ClientId id = turns_.front();
    Owner& owner = owners_[id];
    Awaiter* const first = owner.waiting.front();
    if (!over_share(owner, first->size_) && used_ + first->size_ > total_) {
      short_of_room_ = true;
      return;
    }
    turns_.pop_front();
    if (over_share(owner, first->size_)) {
      ++passed;
    } else {
      passed = 0;
      owner.waiting.pop_front();
      first->on_stop_.disarm();
      first->lease_ = grant(id, first->size_);
      executor_.schedule(first->handle_);
      if (owner.waiting.empty()) continue;
    }
    turns_.push_back(id);
  }
}

bool BufferPool::Awaiter::await_ready() {
  if (stop_.stopped()) return true;
  lease_ = pool_.try_acquire(owner_, size_);
  return lease_.has_value();
}

void BufferPool::Awaiter::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  pool_.waits_.add();
  Owner& owner = pool_.owners_[owner_];
  if (owner.waiting.empty()) pool_.turns_.push_back(owner_);
  owner.waiting.push_back(this);
  on_stop_.arm(stop_, [](void* self) { static_cast<Awaiter*>(self)->give_up(); }, this);
  if (!pool_.over_share(owner, size_)) pool_.short_of_room_ = true;
}

void BufferPool::Awaiter::give_up() {
  Owner& owner = pool_.owners_[owner_];
  std::erase(owner.waiting, this);
  if (owner.waiting.empty()) std::erase(pool_.turns_, owner_);
  pool_.forget_if_empty(owner_);
  pool_.executor_.schedule(handle_);
  pool_.serve();
}

Result<PooledBuffer> BufferPool::Awaiter::await_resume() {
  if (!lease_) return stop_.reason();
  return *std::move(lease_);
}

}  // namespace spate::flow
