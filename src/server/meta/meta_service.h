// SPDX-License-Identifier: Apache-2.0
// MetaService: the operation table of the role "meta".
#pragma once

#include "rpc/service.h"
#include "server/meta/core/core.h"
#include "server/meta/locks/lock_manager.h"

namespace spate::meta {

/// One row for each request that a meta server serves: who may send it, and the function of the rooms that executes it.
/// Keeps no state. The parts behind `core` may be the real ones (role.h) or stand-ins of tests.
///
/// Life cycle: construct -> the core started -> added to a rpc::Server -> the server stopped -> destroyed. One
/// executor.
class MetaService final : public rpc::Service {
 public:
  /// Both outlive it. `locks` null: lock requests are refused.
  explicit MetaService(MetaCore& core, LockManager* locks = nullptr) : core_(core), locks_(locks) { fill_table(); }
  MetaService(const MetaService&) = delete;
  MetaService& operator=(const MetaService&) = delete;

  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    return core_.parts().sessions->join(peer, request, reply);
  }

 private:
  /// Adds a row: `Function`, a Task<Result<Reply>>(Operation&, const Request&), executes `Request::kOp`.
  template <typename Request, auto Function>
  void change(rpc::Access access) {
    serve_encoded(Request::kOp, access, [core = &core_](rpc::Call& call, ByteView body) {
      return core->change(call, body, &encoded_body<Request, Function>);
    });
  }
  template <typename Request, auto Function>
  void read(rpc::Access access) {
    serve_encoded(Request::kOp, access, [core = &core_](rpc::Call& call, ByteView body) {
      return core->read(call, body, &encoded_body<Request, Function>);
    });
  }
  void fill_table();
  job::Task<Result<wire::KeepAliveReply>> keep_alive(rpc::Call& call, wire::KeepAliveRequest request) {
    return core_.parts().sessions->keep_alive(call, request);
  }
  job::Task<Result<wire::EndSessionReply>> end_session(rpc::Call& call, wire::EndSessionRequest request) {
    return core_.parts().sessions->end(call, request);
  }

  job::Task<Result<wire::SessionEventsReply>> fetch_events(rpc::Call& call, wire::SessionEventsRequest request);

  job::Task<Result<wire::ReserveServerReply>> reserve_server(rpc::Call& call, wire::ReserveServerRequest request);
  job::Task<Result<wire::JoinServerReply>> join_server(rpc::Call& call, wire::JoinServerRequest request);
  job::Task<Result<wire::ChangeGroupReply>> change_group(rpc::Call& call, wire::ChangeGroupRequest request);
  job::Task<Result<wire::RevokeKeysReply>> revoke_keys(rpc::Call& call, wire::RevokeKeysRequest request);
  job::Task<Result<wire::ListFencesReply>> list_fences(rpc::Call& call, wire::ListFencesRequest request);

  /// Adds a row of the part `locks`.
  template <typename Request, typename Reply, job::Task<Result<Reply>> (LockManager::*Function)(rpc::Call&, Request)>
  job::Task<Result<Reply>> lock_row(rpc::Call& call, Request request) {
    if (locks_ == nullptr) co_return Error::told(Errc::kNotSupported, "this server keeps no locks");
    auto reply = co_await (locks_->*Function)(call, std::move(request));
    co_return reply;
  }

  MetaCore& core_;
  LockManager* const locks_;
};

}  // namespace spate::meta
