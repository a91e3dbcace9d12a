// SPDX-License-Identifier: Apache-2.0
// Code that both sides of a handshake use.
#pragma once

#include "bmi/tcp/connection.h"

namespace spate::bmi::tcp {

/// Handles one message of a handshake, which has kSize bytes, with a member function of `Owner`. The owner outlives the
/// connection.
template <typename Owner, std::size_t kSize, bool (Owner::*kOnMessage)(Connection&, const std::byte*)>
class HandshakeHandler final : public FrameHandler {
 public:
  explicit HandshakeHandler(Owner& owner) : owner_(owner) {}
  std::size_t header_size() const override { return kSize; }
  bool on_header(Connection& connection, const std::byte* bytes) override {
    return (owner_.*kOnMessage)(connection, bytes);
  }
  void on_payload(Connection& /*connection*/) override {}

 private:
  Owner& owner_;
};

}  // namespace spate::bmi::tcp
