// SPDX-License-Identifier: Apache-2.0
// Authenticator: answers a server's hello and authenticate requests. A peer that has proved its key joins each service.
#pragma once

#include <utility>
#include <vector>

#include "base/random.h"
#include "job/network.h"
#include "rpc/acceptor.h"
#include "rpc/munge_decoder.h"
#include "rpc/refusals.h"
#include "rpc/reply_writer.h"
#include "rpc/service.h"
#include "rpc/user_keys.h"

namespace spate::rpc {

/// One for each server. One executor; outlives the calls. Several handshakes run at once, each on its own peer; a peer
/// must not send another request before the reply to authenticate.
class Authenticator {
 public:
  Authenticator(const AcceptorOptions& options, Entrances entrances, job::NetworkContext& network, Random& random,
                const ReplyWriter& replies, Refusals& refusals, Audit& audit, const UserKeys& user_keys,
                MungeDecoder* munge)
      : acceptor_(options),
        entrances_(std::move(entrances)),
        network_(network.network()),
        clock_(network.executor().clock()),
        random_(random),
        replies_(replies),
        refusals_(refusals),
        audit_(audit),
        user_keys_(user_keys),
        munge_(munge) {}
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  /// Adds a service; peers join the services in the order of these calls. Call it before the first request.
  void add(Service& service) { services_.push_back(&service); }

  const Acceptor& acceptor() const { return acceptor_; }
  /// Yields the body of the reply. If the peer was authenticated before, it no longer is. May wait for munged. Errors
  /// are those of Acceptor::hello(), of Munge::read(), and kUnauthenticated for a user's key that has ended or was
  /// revoked, and for a connection of which it cannot be told at which of the server's addresses it was made.
  job::Task<Result<Bytes>> hello(Call& call, ByteView body);
  /// Yields the body of the reply; the peer is authenticated then. On failure it is not: if it had proved its key, it
  /// is admitted, and its next handshake needs a new connection. Waits for each service's join().
  job::Task<Result<Bytes>> authenticate(Call& call, ByteView body);

 private:
  job::Task<Result<Bytes>> answer_hello(Call& call, ByteView body);
  job::Task<Result<std::optional<MungeIdentity>>> ask_munge(Call& call, const Received& hello, Proof asked);
  void note_failure(Call& call, ByteView body, const Error& error);
  void admit(Call& call, const Accepted& accepted);
  Result<void> check_user(const Accepted& accepted) const;

  Acceptor acceptor_;
  const Entrances entrances_;
  bmi::Network& network_;
  const Clock& clock_;
  Random& random_;
  const ReplyWriter& replies_;
  Refusals& refusals_;
  Audit& audit_;
  const UserKeys& user_keys_;
  MungeDecoder* const munge_;  // null: nobody is admitted by munge
  std::vector<Service*> services_;
};

}  // namespace spate::rpc
