// SPDX-License-Identifier: Apache-2.0
// TlsStarts: the TLS handshakes of the tcp module's connections, which come before the module's own.
#pragma once

#include <string>

#include "bmi/tcp/connections.h"
#include "bmi/tcp/state.h"

namespace spate::bmi::tcp {

/// The module's lock guards it. Life cycle of a connection: connect() or accept() -> Connection::securing, and go_on()
/// at each event, until it says kDone.
class TlsStarts {
 public:
  enum class Progress : std::uint8_t { kDone, kWaits, kFailed };

  TlsStarts(State& state, Connections& connections) : state_(state), connections_(connections) {}

  /// Loads TLS and reads its files. On failure this side can neither make nor accept connections of tcp+tls.
  Result<void> ready();
  /// Begin a handshake, as the connecting and as the accepting side. False: this side cannot; the reason is logged.
  bool connect(Connection& connection, const std::string& host);
  bool accept(Connection& connection);
  /// kFailed: the caller drops the connection; the reason is logged.
  Progress go_on(Connection& connection);
  /// Logs why TLS broke, if it did. Also for connections whose peer refused this side after the handshake, which this
  /// side learns by its first read.
  void note_end(const Connection& connection);

 private:
  bool begin(Connection& connection, Result<std::unique_ptr<tls::Stream>> stream);

  State& state_;
  Connections& connections_;
};

}  // namespace spate::bmi::tcp
