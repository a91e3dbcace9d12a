// SPDX-License-Identifier: Apache-2.0
// Service: the operation table of a role, filled with typed handlers. Adding a request: docs/adding-a-request.md.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "job/task.h"
#include "rpc/call.h"
#include "rpc/user_keys.h"

namespace spate::rpc {

/// Takes the encoded body and yields the encoded reply body. `call` and `body` outlive the task.
using RawHandler = std::function<job::Task<Result<Bytes>>(Call& call, ByteView body)>;

struct OperationRow {
  Access access = Access::kServersOnly;
  RawHandler handler;
};

/// The requests of one role. Life cycle: constructed, which fills the table -> Server::add() -> handlers run, many at
/// once, on the server's executor -> Server::stop(), which waits for them -> destroyed, after the Server. A handler
/// must end soon after Call::stop fires, since a stop of the server waits for it.
class Service {
 public:
  virtual ~Service() = default;

  /// Called when a peer has proved its key, before the reply goes out. Fills its part of the reply, or refuses the
  /// peer. An io server waits here until requests of older incarnations of the client are done; a meta server opens or
  /// resumes the session.
  virtual job::Task<Result<void>> join(Peer& peer, const wire::AuthenticateRequest& request,
                                       wire::AuthenticateReply& reply) = 0;

  const std::map<wire::Op, OperationRow>& operations() const { return operations_; }

 protected:
  /// One row: `Request::kOp` is served by `self->*method`, a Task<Result<Reply>>(Call&, Request) coroutine.
  template <typename Request, typename Reply, typename Self>
  void serve(Access access, Self* self, job::Task<Result<Reply>> (Self::*method)(Call&, Request)) {
    const bool fresh = operations_
                           .emplace(Request::kOp, OperationRow{access,
                                                               [self, method](Call& call, ByteView body) {
                                                                 return run<Request, Reply>(call, body, self, method);
                                                               }})
                           .second;
    SPATE_CHECK(fresh);
  }

  /// One row for a handler that decodes and encodes by itself.
  void serve_encoded(wire::Op op, Access access, RawHandler handler) {
    const bool fresh = operations_.emplace(op, OperationRow{access, std::move(handler)}).second;
    SPATE_CHECK(fresh);
  }

  /// The same for a handler that encodes its reply itself. It can read data straight into the reply.
  template <typename Request, typename Self>
  void serve_encoded(Access access, Self* self, job::Task<Result<Bytes>> (Self::*method)(Call&, Request)) {
    const bool fresh = operations_
                           .emplace(Request::kOp, OperationRow{access,
                                                               [self, method](Call& call, ByteView body) {
                                                                 return run_encoded<Request>(call, body, self, method);
                                                               }})
                           .second;
    SPATE_CHECK(fresh);
  }

 private:
  template <typename Request, typename Self>
  static job::Task<Result<Bytes>> run_encoded(Call& call, ByteView body, Self* self,
                                              job::Task<Result<Bytes>> (Self::*method)(Call&, Request)) {
    auto request = wire::decode_body<Request>(body);
    if (!request) co_return Error(Errc::kProtocol, request.error().context());
    auto reply = co_await (self->*method)(call, *std::move(request));
    co_return reply;
  }

  template <typename Request, typename Reply, typename Self>
  static job::Task<Result<Bytes>> run(Call& call, ByteView body, Self* self,
                                      job::Task<Result<Reply>> (Self::*method)(Call&, Request)) {
    auto request = wire::decode_body<Request>(body);
    if (!request) co_return Error(Errc::kProtocol, request.error().context());
    SPATE_CO_TRY(auto reply, co_await (self->*method)(call, *std::move(request)));
    Bytes out;
    wire::encode_body(reply, out);
    co_return out;
  }

  std::map<wire::Op, OperationRow> operations_;
};

}  // namespace spate::rpc
