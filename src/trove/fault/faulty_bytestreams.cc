// SPDX-License-Identifier: Apache-2.0
#include "trove/fault/faulty_bytestreams.h"

#include <algorithm>

namespace spate::trove {
namespace {

using Kind = BytestreamFault::Kind;

/// The first `bytes` of a read.
struct ShortRead {
  std::vector<Extent> extents;
  std::vector<MutableByteView> memory;
  BytestreamRequest request;

  ShortRead(const BytestreamRequest& whole, std::uint64_t bytes) : request(whole) {
    std::uint64_t left = bytes;
    for (const Extent& extent : whole.extents) {
      extents.push_back({extent.offset, std::min(extent.size, left)});
      left -= extents.back().size;
    }
    left = bytes;
    for (const MutableByteView& piece : whole.memory) {
      memory.push_back(piece.first(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), left))));
      left -= memory.back().size();
    }
    request.extents = extents;
    request.memory = memory;
  }
};

}  // namespace

FaultyBytestreams::FaultyBytestreams(std::unique_ptr<Bytestreams> inner, std::vector<BytestreamFault> plan,
                                     const Clock& clock)
    : inner_(std::move(inner)), clock_(clock) {
  for (const BytestreamFault& fault : plan) add(fault);
}

std::optional<BytestreamFault> FaultyBytestreams::match(BytestreamOp op) {
  ++posted_[static_cast<std::size_t>(op)];
  std::optional<BytestreamFault> found;
  for (Planned& planned : plan_) {
    if (planned.fault.op.value_or(op) != op || ++planned.seen != planned.fault.nth || found) continue;
    found = planned.fault;
  }
  if (found && (found->kind != Kind::kShortRead || op == BytestreamOp::kRead)) {
    ++fired_;
    return found;
  }
  return std::nullopt;
}

Result<void> FaultyBytestreams::try_device_memory(MutableByteView memory) {
  if (device_memory_refused_) return Error(Errc::kNotSupported, "the device memory is out of reach");
  return inner_->try_device_memory(memory);
}

bool FaultyBytestreams::post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) {
  std::optional<BytestreamFault> fault = match(request.op);
  if (device_memory_refused_ && request.device_memory) {
    fault.emplace();
    fault->status = Errc::kNotSupported;
  }
  if (!fault) return inner_->post(request, user, done);
  if (fault->kind == Kind::kFail) {
    done = BytestreamCompletion{};
    done.user = user;
    done.status = fault->status;
    return true;
  }
  if (fault->kind == Kind::kShortRead) return inner_->post(ShortRead(request, fault->bytes).request, user, done);
  return post_with(*fault, request, user, done);
}

bool FaultyBytestreams::post_with(const BytestreamFault& fault, const BytestreamRequest& request, void* user,
                                  BytestreamCompletion& done) {
  auto tracked = std::make_unique<Tracked>(Tracked{user, fault});
  void* const key = tracked.get();
  if (inner_->post(request, key, done)) {
    done.user = user;
    return let_go(fault, done);
  }
  tracked_.emplace(key, std::move(tracked));
  return false;
}

bool FaultyBytestreams::let_go(const BytestreamFault& fault, BytestreamCompletion& completion) {
  if (fault.kind == Kind::kFailAfter) {
    completion.status = fault.status;
    return true;
  }
  held_.push_back({clock_.now() + fault.delay, std::move(completion)});
  return false;
}

MonoTime FaultyBytestreams::next_event_time() const {
  MonoTime next = MonoTime::never();
  for (const Held& held : held_) next = std::min(next, held.until);
  return next;
}

std::size_t FaultyBytestreams::test(std::span<BytestreamCompletion> out) {
  const std::size_t found = inner_->test(out);
  std::size_t n = 0;
  for (std::size_t i = 0; i < found; ++i) {
    BytestreamCompletion completion = std::move(out[i]);
    const auto it = tracked_.find(completion.user);
    bool goes = true;
    if (it != tracked_.end()) {
      completion.user = it->second->user;
      goes = let_go(it->second->fault, completion);
      tracked_.erase(it);
    }
    if (goes) out[n++] = std::move(completion);
  }
  const MonoTime now = clock_.now();
  for (auto it = held_.begin(); it != held_.end() && n < out.size();) {
    if (it->until > now) {
      ++it;
      continue;
    }
    out[n++] = std::move(it->completion);
    it = held_.erase(it);
  }
  return n;
}

}  // namespace spate::trove
