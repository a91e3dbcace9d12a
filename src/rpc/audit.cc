// SPDX-License-Identifier: Apache-2.0
#include "rpc/audit.h"

#include <fmt/format.h>

#include "log/fields.h"
#include "log/line.h"
#include "log/log.h"
#include "wire/op.h"

namespace spate::rpc {
namespace {

constexpr std::size_t kMostText = 256;  // bytes of one value

/// The address without the port, since each connection has a port of its own.
std::string_view source_of(std::string_view url) {
  const std::size_t colon = url.rfind(':');
  return colon == std::string_view::npos || colon < url.find("://") + 3 ? url : url.substr(0, colon);
}

/// The name of the key that the peer has proved.
std::string key_of(const Peer& peer) {
  if (!peer.admitted) return "none";
  if (peer.kind == wire::PeerKind::kServer) return "server";
  return peer.user_key ? "user " + text_of(peer.user_key->id) : "client";
}

std::string_view shortened(std::string_view text) { return text.substr(0, kMostText); }

}  // namespace

/// The values of one line, all borrowed from the caller.
struct Audit::Line {
  std::string_view event;
  const Peer& peer;
  bmi::Address address;
  std::string_view op;       // empty: none
  std::string_view outcome;  // "ok", or the name of an error
  std::string_view what;     // why it was refused, or what the operator has done
  std::uint64_t client = 0;  // the session
};

Audit::Audit(log::LineFile* file, ServerId server, job::NetworkContext& network, metrics::Registry& metrics)
    : file_(file),
      server_(server),
      network_(network),
      written_(metrics, "spate_rpc_audit_lines_total"),
      suppressed_(metrics, "spate_rpc_audit_suppressed_total"),
      lost_(metrics, "spate_rpc_audit_lost_total"),
      lost_lines_(network.executor().clock()) {}

void Audit::refused(const Call& call, const Error& why) {
  write(rate_for(*call.peer),
        {"refused", *call.peer, call.address, wire::op_name(call.header.op), name(why.code()),
         why.context().empty() ? std::string_view("no reason given") : why.context(), call.header.client.value});
}

void Audit::dropped(const Peer& peer, std::string_view why) {
  write(rate_for(peer), {"dropped", peer, peer.bound, "", "connection ended", why, peer.client.value});
}

void Audit::operated(const Call& call, const Result<void>& outcome) {
  const std::string_view ended = outcome ? "ok" : name(outcome.code());
  write(operators_,
        {"admin", *call.peer, call.address, wire::op_name(call.header.op), ended, call.deed, call.header.client.value});
}

void Audit::opened(const Call& call) {
  write(known_, {"session", *call.peer, call.address, "", "ok", "opened", call.peer->client.value});
}

void Audit::write(AuditRate& rate, Line line) {
  if (file_ == nullptr) return;
  const job::Executor& executor = network_.executor();
  const std::string url = network_.network().peer_info(line.address).url;
  const auto left_out = rate.admit(source_of(url), executor.now());
  if (!left_out) return suppressed_.add();
  std::string text = fmt::format(R"({{"time":"{}","server":{},"event":"{}")", log::timestamp(executor.clock().wall()),
                                 server_, line.event);
  const auto add = [&text](std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(text), R"(,"{}":)", name);
    log::append_json_text(text, shortened(value));
  };
  if (!line.op.empty()) add("op", line.op);
  add("outcome", line.outcome);
  add("what", line.what);
  add("from", url);
  add("key", key_of(line.peer));
  // An unauthenticated peer's description of itself is only a claim.
  if (line.peer.admitted) fmt::format_to(std::back_inserter(text), R"(,"uid":{})", line.peer.credential.uid);
  if (line.client != 0) fmt::format_to(std::back_inserter(text), R"(,"client":{})", line.client);
  add(line.peer.admitted ? "description" : "claims_to_be", line.peer.description);
  if (*left_out != 0) fmt::format_to(std::back_inserter(text), R"(,"left_out":{})", *left_out);
  text += '}';
  const auto written = file_->write(text);
  if (written) return written_.add();
  lost_.add();
  if (const auto more = lost_lines_.admit())
    SPATE_LOG("rpc", error, "audit log: lines are lost error={}{}", written.error(), *more);
}

}  // namespace spate::rpc
