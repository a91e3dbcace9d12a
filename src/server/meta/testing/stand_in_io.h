// SPDX-License-Identifier: Apache-2.0
// StandInIo: an io server for the tests of a meta server, which answers what it is told to.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "job/event.h"
#include "job/executor.h"
#include "rpc/service.h"
#include "wire/io_messages.h"

namespace spate::meta {

/// Answers with the states it was given, and records the requests.
class StandInIo final : public rpc::Service {
 public:
  StandInIo() {
    serve(rpc::Access::kServersOnly, this, &StandInIo::stat);
    serve(rpc::Access::kServersOnly, this, &StandInIo::truncate);
    serve(rpc::Access::kServersOnly, this, &StandInIo::remove);
    serve(rpc::Access::kServersOnly, this, &StandInIo::fence);
  }
  job::Task<Result<void>> join(rpc::Peer&, const wire::AuthenticateRequest&, wire::AuthenticateReply&) override {
    co_return {};
  }

  std::map<std::pair<std::uint64_t, TargetId>, wire::DatafileState> states;  // by handle
  std::vector<wire::DatafileStatRequest> stats;
  std::vector<wire::DatafileTruncateRequest> truncates;
  std::vector<wire::DatafileRemoveRequest> removes;
  std::set<Handle> removed;
  std::vector<wire::FenceRequest> fences;
  Errc failure = Errc::kOk;
  unsigned failures = 0;          // how many requests for states fail before the others succeed; 0: all of them
  Errc refusal = Errc::kIoError;  // of requests to remove a file of `refused`
  std::set<Handle> refused;
  bool answers_too_little = false;
  job::Executor* waits_in_vain = nullptr;  // if set, a truncation waits, and reports at its deadline what it waited for
  std::vector<MonoTime> gave_up;           // when it did so

 private:
  Result<std::vector<wire::DatafileState>> states_of(Handle handle, const std::vector<wire::SlotRef>& slots) {
    if (failure != Errc::kOk)
      return Error(failures == 0 || --failures > 0 ? failure : std::exchange(failure, Errc::kOk), "as ordered");
    std::vector<wire::DatafileState> found;
    for (const wire::SlotRef& slot : slots) found.push_back(states[{handle.value, slot.target}]);
    if (answers_too_little) found.pop_back();
    return found;
  }
  job::Task<Result<wire::DatafileStatReply>> stat(rpc::Call&, wire::DatafileStatRequest request) {
    stats.push_back(request);
    wire::DatafileStatReply reply;
    SPATE_CO_TRY(reply.datafiles, states_of(request.handle, request.slots));
    co_return reply;
  }
  job::Task<Result<wire::DatafileTruncateReply>> truncate(rpc::Call& call, wire::DatafileTruncateRequest request) {
    truncates.push_back(request);
    if (waits_in_vain != nullptr) {
      job::Event never(*waits_in_vain);
      std::ignore = co_await never.wait(call.stop);
      gave_up.push_back(waits_in_vain->now());
      co_return Error(Errc::kTimeout, "what stands in the way");
    }
    wire::DatafileTruncateReply reply;
    SPATE_CO_TRY(reply.datafiles, states_of(request.handle, request.slots));
    co_return reply;
  }
  job::Task<Result<wire::DatafileRemoveReply>> remove(rpc::Call&, wire::DatafileRemoveRequest request) {
    removes.push_back(request);
    if (failure != Errc::kOk) co_return Error(failure, "as ordered");
    bool refuses = false;
    for (const wire::DatafileRef& ref : request.datafiles) {
      if (!refused.contains(ref.handle)) {
        removed.insert(ref.handle);
      } else {
        refuses = true;
      }
    }
    if (refuses) co_return Error(refusal, "one of them stays");
    co_return wire::DatafileRemoveReply();
  }
  job::Task<Result<wire::FenceReply>> fence(rpc::Call&, wire::FenceRequest request) {
    fences.push_back(request);
    if (failure != Errc::kOk) co_return Error(failure, "as ordered");
    co_return wire::FenceReply();
  }
};

}  // namespace spate::meta
