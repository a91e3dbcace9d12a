// SPDX-License-Identifier: Apache-2.0
// Registration: an io server reports to the meta server that it is there, and a new one learns which clients are
// fenced.
#pragma once

#include "base/random.h"
#include "model/cluster_map.h"
#include "rpc/channel.h"
#include "server/io/parts.h"

namespace spate::io {

struct RegistrationOptions {
  ServerEntry self;
  ServerEntry meta;  // address of the meta server
  Key server_key{};
  rpc::HandshakePolicy handshake;
};

/// The identity of this server towards other servers.
rpc::Identity identity_of(const RegistrationOptions& options, FsId fs);

/// Retries until the meta server has answered. First it joins: from then on the meta server sends it every fence. Then
/// a server whose store is new asks for the earlier fences. In this order it misses none. One executor; pinned. Life
/// cycle: construct -> run() until it ends, or the stop of `parts` has ended it -> destroyed.
class Registration {
 public:
  /// All of them outlive the registration.
  Registration(RegistrationOptions options, Parts& parts, job::NetworkContext& network, Random& random);
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  job::Task<void> run();

 private:
  rpc::CallOptions call_options(std::uint32_t reply_room) const;
  job::Task<Result<void>> register_once();
  job::Task<Result<void>> learn_fences();

  const RegistrationOptions options_;
  Parts& parts_;
  rpc::Identity identity_;
  rpc::Channel meta_;
};

}  // namespace spate::io
