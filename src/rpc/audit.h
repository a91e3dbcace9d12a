// SPDX-License-Identifier: Apache-2.0
// Audit: a line for each refusal, and for what operators do (docs/operating.md, "Audit log").
#pragma once

#include <string>
#include <string_view>

#include "job/network.h"
#include "log/line_file.h"
#include "log/rate_limit.h"
#include "metrics/metrics.h"
#include "rpc/audit_rate.h"
#include "rpc/call.h"

namespace spate::rpc {

/// One per server. A line is a JSON object. Unauthenticated peers, peers that have proved a key, and operators have
/// separate limits on lines, so that nobody keeps the lines of others out. Without a file it writes nothing. One
/// executor.
class Audit {
 public:
  /// `file` outlives this object; null: there is no audit log.
  Audit(log::LineFile* file, ServerId server, job::NetworkContext& network, metrics::Registry& metrics);

  /// A request, or a handshake, that was refused.
  void refused(const Call& call, const Error& why);
  /// A peer whose connection the server has ended.
  void dropped(const Peer& peer, std::string_view why);
  /// Notes a request of an operator (Call::deed), and how it ended.
  void operated(const Call& call, const Result<void>& outcome);
  /// A client has opened a session.
  void opened(const Call& call);

 private:
  struct Line;
  void write(AuditRate& rate, Line line);
  AuditRate& rate_for(const Peer& peer) { return peer.admitted ? known_ : unauthenticated_peers_; }

  log::LineFile* const file_;
  const ServerId server_;
  job::NetworkContext& network_;
  metrics::Counter written_;
  metrics::Counter suppressed_;
  metrics::Counter lost_;
  log::RateLimit lost_lines_;
  AuditRate unauthenticated_peers_;
  AuditRate known_;
  AuditRate operators_;
};

}  // namespace spate::rpc
