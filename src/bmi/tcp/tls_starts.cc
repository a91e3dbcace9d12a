// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/tls_starts.h"

#include <sys/socket.h>

#include <tuple>
#include <utility>

namespace spate::bmi::tcp {
namespace {

/// Tells a client that speaks no TLS why the connection ends.
void send_alert(int socket) {
  std::ignore = ::send(socket, kTlsAlert.data(), kTlsAlert.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // If something unread were left at the close, the kernel might drop the alert.
  HelloBytes rest;
  std::ignore = ::recv(socket, rest.data(), rest.size(), MSG_DONTWAIT);
}

}  // namespace

Result<void> TlsStarts::ready() {
  if (state_.tcp_options.tls != nullptr) return state_.tcp_options.tls->open();
  return Error(Errc::kNoSuchModule, "this program has no TLS");
}

bool TlsStarts::begin(Connection& connection, Result<std::unique_ptr<tls::Stream>> stream) {
  if (!stream) {
    ++state_.tcp_counters.tls_failures;
    state_.peer_log.peer_dropped(connection.remote, stream.error().message());
    if (connection.peer != nullptr) connection.peer->failure = stream.error().message();
    return false;
  }
  connection.secure(*std::move(stream));
  connection.securing = true;
  return true;
}

bool TlsStarts::connect(Connection& connection, const std::string& host) {
  return begin(connection, state_.tcp_options.tls->connect(connection.socket(), host));
}

bool TlsStarts::accept(Connection& connection) {
  return begin(connection, state_.tcp_options.tls->accept(connection.socket()));
}

TlsStarts::Progress TlsStarts::go_on(Connection& connection) {
  switch (connection.stream()->handshake()) {
    case tls::Handshake::kWantsRead: return Progress::kWaits;
    case tls::Handshake::kWantsWrite: connections_.block(connection); return Progress::kWaits;
    case tls::Handshake::kFailed:
      note_end(connection);
      if (connection.peer == nullptr && connection.stream()->heard_no_tls()) send_alert(connection.socket());
      return Progress::kFailed;
    case tls::Handshake::kDone: break;
  }
  connection.securing = false;
  ++state_.tcp_counters.tls_connections;
  if (connection.stream()->kernel_sends()) ++state_.tcp_counters.tls_sent_by_kernel;
  return Progress::kDone;
}

void TlsStarts::note_end(const Connection& connection) {
  if (connection.stream() == nullptr) return;
  if (connection.securing) ++state_.tcp_counters.tls_failures;
  const std::string& why = connection.stream()->failure();
  if (why.empty()) return;
  state_.peer_log.peer_dropped(connection.remote, "TLS: " + why);
  if (connection.peer != nullptr) connection.peer->failure = "TLS: " + why;
}

}  // namespace spate::bmi::tcp
