// SPDX-License-Identifier: Apache-2.0
// MortalBytestreams: the bytestreams of a process that may be killed while operations are in flight.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "base/check.h"
#include "trove/bytestream.h"

namespace spate::cluster {

/// Forwards to the inner store until die(). Then all operations in flight, and all later ones, end with kCancelled.
class MortalBytestreams final : public trove::Bytestreams {
 public:
  explicit MortalBytestreams(std::unique_ptr<trove::Bytestreams> inner)
      : inner_(std::move(inner)), direct_(inner_->direct()) {}

  void die() {
    inner_.reset();
    for (void* user : in_flight_) {
      trove::BytestreamCompletion done;
      done.user = user;
      done.status = Errc::kCancelled;
      ended_.push_back(std::move(done));
    }
    in_flight_.clear();
  }

  bool post(const trove::BytestreamRequest& request, void* user, trove::BytestreamCompletion& done) override {
    if (inner_ == nullptr) {
      done = {};
      done.user = user;
      done.status = Errc::kCancelled;
      return true;
    }
    if (inner_->post(request, user, done)) return true;
    in_flight_.push_back(user);
    return false;
  }
  std::size_t test(std::span<trove::BytestreamCompletion> out) override {
    if (inner_ != nullptr) {
      const std::size_t n = inner_->test(out);
      for (std::size_t i = 0; i < n; ++i) {
        const auto found = std::find(in_flight_.begin(), in_flight_.end(), out[i].user);
        SPATE_CHECK(found != in_flight_.end());
        in_flight_.erase(found);
      }
      return n;
    }
    std::size_t n = 0;
    for (; n < out.size() && !ended_.empty(); ++n) {
      out[n] = std::move(ended_.front());
      ended_.pop_front();
    }
    return n;
  }
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return true; }
  Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) override {
    if (inner_ == nullptr) return Errc::kCancelled;
    return inner_->list(after, max);
  }
  Result<trove::SpaceInfo> space() override {
    if (inner_ == nullptr) return Errc::kCancelled;
    return inner_->space();
  }
  Result<std::unique_ptr<trove::LeasePage>> make_lease(const trove::LeaseTitle& title) override {
    if (inner_ == nullptr) return Errc::kCancelled;
    return inner_->make_lease(title);
  }
  Result<std::vector<std::unique_ptr<trove::LeasePage>>> left_leases() override {
    if (inner_ == nullptr) return Errc::kCancelled;
    return inner_->left_leases();
  }
  trove::DirectAbility direct() const override { return direct_; }
  std::string describe() const override { return "sim"; }

 private:
  std::unique_ptr<trove::Bytestreams> inner_;
  const trove::DirectAbility direct_;
  std::vector<void*> in_flight_;  // in the order of posting
  std::deque<trove::BytestreamCompletion> ended_;
};

}  // namespace spate::cluster
