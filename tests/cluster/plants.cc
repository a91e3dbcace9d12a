// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/plants.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "job/deadline.h"

namespace spate::cluster {
namespace {

/// Forwards all operations.
class ForwardingBytestreams : public trove::Bytestreams {
 public:
  explicit ForwardingBytestreams(trove::Bytestreams& inner) : inner_(inner) {}

  bool post(const trove::BytestreamRequest& request, void* user, trove::BytestreamCompletion& done) override {
    return inner_.post(request, user, done);
  }
  std::size_t test(std::span<trove::BytestreamCompletion> out) override { return inner_.test(out); }
  int wait_descriptor() const override { return inner_.wait_descriptor(); }
  bool prepare_to_wait() override { return inner_.prepare_to_wait(); }
  Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) override { return inner_.list(after, max); }
  Result<trove::SpaceInfo> space() override { return inner_.space(); }
  Result<std::unique_ptr<trove::LeasePage>> make_lease(const trove::LeaseTitle& title) override {
    return inner_.make_lease(title);
  }
  Result<std::vector<std::unique_ptr<trove::LeasePage>>> left_leases() override { return inner_.left_leases(); }
  trove::DirectAbility direct() const override { return inner_.direct(); }
  std::string describe() const override { return inner_.describe(); }

 private:
  trove::Bytestreams& inner_;
};

/// Reports success for one kind of operation without doing it: a sync, or a datafile's move to a new local file.
class IdleBytestreams final : public ForwardingBytestreams {
 public:
  IdleBytestreams(trove::Bytestreams& inner, trove::BytestreamOp idle) : ForwardingBytestreams(inner), idle_(idle) {}

  bool post(const trove::BytestreamRequest& request, void* user, trove::BytestreamCompletion& done) override {
    if (request.op != idle_) return ForwardingBytestreams::post(request, user, done);
    done = {};
    done.user = user;
    return true;
  }

 private:
  const trove::BytestreamOp idle_;
};

/// Delays the completion of a write while others of the same datafile are in flight. The delayed completion has the
/// size that the write saw, but a counter from after the next write.
class SmallSizeBytestreams final : public ForwardingBytestreams {
 public:
  using ForwardingBytestreams::ForwardingBytestreams;

  bool post(const trove::BytestreamRequest& request, void* user, trove::BytestreamCompletion& done) override {
    const bool at_once = ForwardingBytestreams::post(request, user, done);
    if (request.op != trove::BytestreamOp::kWrite) return at_once;
    if (at_once) {
      release(request.id, done.stat.change_counter);
    } else {
      writing_[user] = request.id;
    }
    return at_once;
  }
  std::size_t test(std::span<trove::BytestreamCompletion> out) override {
    std::size_t n = 0;
    for (; n < out.size() && !ready_.empty(); ++n) {
      out[n] = std::move(ready_.front());
      ready_.pop_front();
    }
    const std::size_t got = ForwardingBytestreams::test(out.subspan(n));
    std::size_t kept = n;
    for (std::size_t i = n; i < n + got; ++i) {
      if (!hold_back(out[i])) std::swap(out[kept++], out[i]);
    }
    return kept;
  }
  bool prepare_to_wait() override { return ready_.empty() && ForwardingBytestreams::prepare_to_wait(); }

 private:
  bool hold_back(trove::BytestreamCompletion& done) {
    const auto found = writing_.find(done.user);
    if (found == writing_.end()) return false;
    const DatafileId id = found->second;
    writing_.erase(found);
    release(id, done.stat.change_counter);
    const auto same = [id](const auto& other) { return other.second == id; };
    if (std::none_of(writing_.begin(), writing_.end(), same)) return false;
    held_.emplace_back(id, std::move(done));
    return true;
  }
  void release(DatafileId id, std::uint64_t counter) {
    for (auto& [its_id, done] : held_) {
      if (its_id != id) continue;
      done.stat.change_counter = counter + 1;
      ready_.push_back(std::move(done));
    }
    std::erase_if(held_, [id](const auto& each) { return each.first == id; });
  }

  std::map<void*, DatafileId> writing_;
  std::vector<std::pair<DatafileId, trove::BytestreamCompletion>> held_;
  std::deque<trove::BytestreamCompletion> ready_;
};

/// Fences no session at the io servers, or only at those servers that `fencing` knows.
class FencelessIoServers final : public meta::IoServers {
 public:
  explicit FencelessIoServers(meta::IoServers& inner, std::unique_ptr<meta::IoServers> fencing = nullptr)
      : inner_(inner), fencing_(std::move(fencing)) {}

  job::Task<Result<wire::DataSummary>> stat(Handle handle, Layout layout, job::StopToken stop) override {
    return inner_.stat(handle, std::move(layout), stop);
  }
  job::Task<Result<wire::DataSummary>> truncate(Handle handle, meta::TruncateIntent intent,
                                                job::StopToken stop) override {
    return inner_.truncate(handle, std::move(intent), stop);
  }
  job::Task<meta::RemoveOutcome> remove(std::vector<meta::DeadFile> files, WallTime tombstone_until,
                                        job::StopToken stop) override {
    return inner_.remove(std::move(files), tombstone_until, stop);
  }
  job::Task<Result<void>> fence(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop) override {
    if (fencing_ == nullptr) co_return Result<void>();
    auto fenced = co_await fencing_->fence(client, lowest_epoch, stop);
    co_return fenced;
  }
  void server_added(const ServerEntry& server) override { inner_.server_added(server); }

 private:
  meta::IoServers& inner_;
  const std::unique_ptr<meta::IoServers> fencing_;
};

/// Reports a refusal of a truncation as a timeout.
class PatientIoServers final : public meta::IoServers {
 public:
  explicit PatientIoServers(meta::IoServers& inner) : inner_(inner) {}

  job::Task<Result<wire::DataSummary>> stat(Handle handle, Layout layout, job::StopToken stop) override {
    return inner_.stat(handle, std::move(layout), stop);
  }
  job::Task<Result<wire::DataSummary>> truncate(Handle handle, meta::TruncateIntent intent,
                                                job::StopToken stop) override {
    auto done = co_await inner_.truncate(handle, std::move(intent), stop);
    if (done) co_return done;
    co_return Error(Errc::kTimeout, done.error().context());
  }
  job::Task<meta::RemoveOutcome> remove(std::vector<meta::DeadFile> files, WallTime tombstone_until,
                                        job::StopToken stop) override {
    return inner_.remove(std::move(files), tombstone_until, stop);
  }
  job::Task<Result<void>> fence(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop) override {
    return inner_.fence(client, lowest_epoch, stop);
  }
  void server_added(const ServerEntry& server) override { inner_.server_added(server); }

 private:
  meta::IoServers& inner_;
};

/// Recalls no leases before a change is committed.
class HastyLeases final : public meta::Leases {
 public:
  explicit HastyLeases(meta::Leases& inner) : inner_(inner) {}

  job::Task<Result<wire::LookupLeaseReply>> look_up(meta::Operation& operation,
                                                    const wire::LookupLeaseRequest& request) override {
    return inner_.look_up(operation, request);
  }
  job::Task<Result<wire::ListLeaseReply>> list(meta::Operation& operation,
                                               const wire::ListLeaseRequest& request) override {
    return inner_.list(operation, request);
  }
  job::Task<Result<void>> recall(meta::Operation&) override { co_return Result<void>(); }
  void begin_change(Handle object) override { inner_.begin_change(object); }
  wire::Granted keep_changed(meta::Operation& operation) override { return inner_.keep_changed(operation); }
  void end_change(Handle object, bool removed) override { inner_.end_change(object, removed); }
  bool any_gathers() const override { return inner_.any_gathers(); }
  void heard(ClientId client, std::uint32_t epoch, bool knows_table) override {
    inner_.heard(client, epoch, knows_table);
  }
  void acknowledged(ClientId client, std::uint32_t epoch, const wire::SessionEvent& event) override {
    inner_.acknowledged(client, epoch, event);
  }
  job::Task<Result<void>> release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) override {
    return inner_.release(client, below_epoch, stop);
  }

 private:
  meta::Leases& inner_;
};

/// Carries out every fifth small write a second time after its reply, as if a copy of the request had been stuck in a
/// lost connection and had not been thrown away.
class ResendingService final : public rpc::Service {
 public:
  ResendingService(rpc::Service& inner, job::Executor& executor, job::Gate& gate)
      : inner_(inner), executor_(executor), gate_(gate) {
    for (const auto& row : inner.operations()) {
      const rpc::RawHandler* handler = &row.second.handler;
      if (row.first == wire::Op::kWrite) {
        serve_encoded(row.first, row.second.access,
                      [this, handler](rpc::Call& call, ByteView body) { return write(*handler, call, body); });
      } else {
        serve_encoded(row.first, row.second.access, *handler);
      }
    }
  }
  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    return inner_.join(peer, request, reply);
  }

 private:
  static constexpr unsigned kEvery = 5;
  static constexpr std::size_t kSmall = 3000;  // requests that contain their data

  job::Task<Result<Bytes>> write(const rpc::RawHandler& handler, rpc::Call& call, ByteView body) {
    auto result = co_await handler(call, body);
    if (result && body.size() < kSmall && ++writes_ % kEvery == 0) {
      rpc::Call copy = call;
      copy.stop = {};
      copy.permits = nullptr;
      job::spawn(gate_, once_more(handler, std::move(copy), to_bytes(body)));
    }
    co_return result;
  }
  job::Task<void> once_more(const rpc::RawHandler& handler, rpc::Call call, Bytes body) {
    std::ignore = co_await executor_.sleep(std::chrono::milliseconds(10));
    std::ignore = co_await handler(call, body);
  }

  rpc::Service& inner_;
  job::Executor& executor_;
  job::Gate& gate_;
  unsigned writes_ = 0;
};

/// Hides from each request that it may be ended before its deadline, and that it may give up its place while it waits.
class HoardingService final : public rpc::Service {
 public:
  HoardingService(rpc::Service& inner, job::Executor& executor) : inner_(inner), executor_(executor) {
    for (const auto& row : inner.operations()) {
      const rpc::RawHandler* handler = &row.second.handler;
      serve_encoded(row.first, row.second.access,
                    [this, handler](rpc::Call& call, ByteView body) { return run(*handler, call, body); });
    }
  }
  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    return inner_.join(peer, request, reply);
  }

 private:
  job::Task<Result<Bytes>> run(const rpc::RawHandler& handler, rpc::Call& call, ByteView body) {
    rpc::Call copy = call;
    const MonoTime deadline = executor_.now() + std::chrono::milliseconds(call.header.deadline_ms);
    job::DeadlineScope scope(executor_, call.header.deadline_ms == 0 ? MonoTime::never() : deadline, {});
    copy.stop = scope.token();
    copy.permits = nullptr;
    auto result = co_await handler(copy, body);
    co_return result;
  }

  rpc::Service& inner_;
  job::Executor& executor_;
};

}  // namespace

std::unique_ptr<trove::Bytestreams> plant_in_bytestreams(Plant plant, trove::Bytestreams& inner) {
  switch (plant) {
    case Plant::kSkippedFsync: return std::make_unique<IdleBytestreams>(inner, trove::BytestreamOp::kSync);
    case Plant::kFalseFence: return std::make_unique<IdleBytestreams>(inner, trove::BytestreamOp::kReplace);
    case Plant::kSmallSize: return std::make_unique<SmallSizeBytestreams>(inner);
    default: return nullptr;
  }
}

std::unique_ptr<meta::IoServers> plant_in_io_servers(Plant plant, meta::IoServers& inner,
                                                     const std::function<std::unique_ptr<meta::IoServers>()>& others) {
  switch (plant) {
    case Plant::kLostFence: return std::make_unique<FencelessIoServers>(inner);
    case Plant::kUnfencedServer: return std::make_unique<FencelessIoServers>(inner, others());
    case Plant::kEndlessIntent: return std::make_unique<PatientIoServers>(inner);
    default: return nullptr;
  }
}

std::unique_ptr<meta::Leases> plant_in_leases(Plant plant, meta::Leases& inner) {
  if (plant != Plant::kForgottenRecall) return nullptr;
  return std::make_unique<HastyLeases>(inner);
}

std::unique_ptr<rpc::Service> plant_in_meta_service(Plant plant, rpc::Service& inner, job::Executor& executor) {
  if (plant != Plant::kHoardedPlaces) return nullptr;
  return std::make_unique<HoardingService>(inner, executor);
}

std::unique_ptr<rpc::Service> plant_in_io_service(Plant plant, rpc::Service& inner, job::Executor& executor,
                                                  job::Gate& gate) {
  if (plant == Plant::kHarshRenewal) return make_harsh_service(inner);
  if (plant == Plant::kForgottenError) return make_forgetful_service(inner);
  if (plant != Plant::kStaleResend) return nullptr;
  return std::make_unique<ResendingService>(inner, executor, gate);
}

}  // namespace spate::cluster
