// SPDX-License-Identifier: Apache-2.0
// FaultyBytestreams: wraps any store and applies planned faults. For tests.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "trove/bytestream.h"

namespace spate::trove {

struct BytestreamFault {
  enum class Kind : std::uint8_t {
    kFail,       // not carried out: `status`
    kFailAfter,  // carried out, and yet `status`: an answer lost on its way
    kShortRead,  // a read of the first `bytes` only, with success; other operations are left alone
    kDelay,      // carried out; the completion is held back for `delay`
  };
  std::optional<BytestreamOp> op;  // none: any
  std::uint64_t nth = 1;           // of the matching posts, from 1
  Kind kind = Kind::kFail;
  Errc status = Errc::kIoError;
  std::uint64_t bytes = 0;
  Duration delay{0};
};

/// Each fault fires once; of several that match, the first. A sweep sets nth = 1, 2, 3, ... until fired() stays 0.
class FaultyBytestreams final : public Bytestreams {
 public:
  /// `clock` is for delays; not owned.
  FaultyBytestreams(std::unique_ptr<Bytestreams> inner, std::vector<BytestreamFault> plan, const Clock& clock);

  bool post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) override;
  std::size_t test(std::span<BytestreamCompletion> out) override;
  int wait_descriptor() const override { return inner_->wait_descriptor(); }
  /// Returns false while a completion is delayed, because no descriptor becomes readable when the delay ends.
  bool prepare_to_wait() override { return held_.empty() && inner_->prepare_to_wait(); }
  Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) override { return inner_->list(after, max); }
  Result<SpaceInfo> space() override { return inner_->space(); }
  DirectAbility direct() const override { return inner_->direct(); }
  Result<void> try_device_memory(MutableByteView memory) override;
  Result<void> register_memory(MutableByteView memory) override { return inner_->register_memory(memory); }
  void forget_memory(MutableByteView memory) override { inner_->forget_memory(memory); }
  Result<std::unique_ptr<LeasePage>> make_lease(const LeaseTitle& title) override { return inner_->make_lease(title); }
  Result<std::vector<std::unique_ptr<LeasePage>>> left_leases() override { return inner_->left_leases(); }
  std::string describe() const override { return "fault(" + inner_->describe() + ")"; }

  /// Behaves from now on as a device that cannot reach another device's memory.
  void refuse_device_memory() { device_memory_refused_ = true; }
  /// Adds to the plan. The fault counts posts from now on.
  void add(const BytestreamFault& fault) { plan_.push_back({fault, 0}); }
  std::uint64_t posted(BytestreamOp op) const { return posted_[static_cast<std::size_t>(op)]; }
  std::uint64_t fired() const { return fired_; }
  /// When the next delayed completion is due; never() without one.
  MonoTime next_event_time() const;

 private:
  struct Planned {
    BytestreamFault fault;
    std::uint64_t seen = 0;
  };
  struct Tracked {
    void* user;
    BytestreamFault fault;
  };
  struct Held {
    MonoTime until;
    BytestreamCompletion completion;
  };

  std::optional<BytestreamFault> match(BytestreamOp op);
  bool post_with(const BytestreamFault& fault, const BytestreamRequest& request, void* user,
                 BytestreamCompletion& done);
  /// Applies the fault to a completion. False: it is held back.
  bool let_go(const BytestreamFault& fault, BytestreamCompletion& completion);

  std::unique_ptr<Bytestreams> inner_;
  const Clock& clock_;
  std::vector<Planned> plan_;
  std::array<std::uint64_t, 16> posted_{};
  std::uint64_t fired_ = 0;
  std::unordered_map<void*, std::unique_ptr<Tracked>> tracked_;  // in flight with a fault; key: the user pointer inside
  std::vector<Held> held_;
  bool device_memory_refused_ = false;
};

}  // namespace spate::trove
