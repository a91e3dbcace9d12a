// SPDX-License-Identifier: Apache-2.0
// The first bytes of each connection: Hello from the connector, Welcome from the acceptor.
// See docs/wire-tcp.md, "Handshake".
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/checksum.h"
#include "base/error.h"
#include "bmi/network.h"
#include "bmi/protocol/handshake.h"
#include "bmi/protocol/limits.h"
#include "bmi/tcp/frame.h"

namespace spate::bmi::tcp {

using protocol::kept_back;
using protocol::Limits;
using protocol::LinkId;
using protocol::reserve_of;

inline constexpr std::uint16_t kVersionMin = 1;
inline constexpr std::uint16_t kVersionMax = 2;
inline constexpr protocol::Versions kVersions{kVersionMin, kVersionMax};
/// The first version whose bulk connections can prove a key.
inline constexpr std::uint16_t kProvingVersion = 2;
inline constexpr unsigned kMaxBulkConnections = 8;

struct Hello {
  protocol::Versions versions = kVersions;
  std::uint8_t channel = 0;           // 0: control; 1 to bulk_connections: bulk
  std::uint8_t bulk_connections = 1;  // of this pair, 1 to kMaxBulkConnections
  LinkId link{};
  /// Control connections: 0. Bulk connections: the token of the Welcome of the control connection; with a link key
  /// (kProvingVersion) a random number.
  std::uint64_t token = 0;
  Limits limits;

  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Welcome {
  Errc status = Errc::kOk;  // another value: the acceptor refuses, and closes the connection afterwards
  std::uint16_t version = kVersionMax;
  std::uint64_t token = 0;  // a random number; 0 in the Welcome of a bulk connection without a link key
  Limits limits;

  friend bool operator==(const Welcome&, const Welcome&) = default;
};

inline constexpr std::size_t kHelloSize = 64;
inline constexpr std::size_t kWelcomeSize = 48;

using HelloBytes = std::array<std::byte, kHelloSize>;
using WelcomeBytes = std::array<std::byte, kWelcomeSize>;

HelloBytes encode(const Hello& hello);
WelcomeBytes encode(const Welcome& welcome);
/// Empty when the bytes are no such message of any version, or a field is out of range. A Hello of an unknown version
/// is decoded, too, because its first 12 bytes are the same in every version.
std::optional<Hello> decode_hello(const std::byte* bytes);
std::optional<Welcome> decode_welcome(const std::byte* bytes);

/// Whether bytes that should have been a Hello or a Welcome begin a record of TLS: the other side has a tcp+tls://
/// address where this one has tcp://.
bool is_tls(ByteView bytes);
/// A fatal alert of TLS (RFC 8446, section 6). An acceptor of tcp+tls:// sends it to a connector that speaks no TLS. A
/// connector of tcp:// recognizes it by is_tls(), and so learns why the connection ends.
inline constexpr std::array<std::byte, 7> kTlsAlert{std::byte{21}, std::byte{3}, std::byte{3}, std::byte{0},
                                                    std::byte{2},  std::byte{2}, std::byte{70}};

/// Follows the Welcome of a bulk connection whose ends have a link key: first the acceptor's proof, then the
/// connector's.
using LinkProof = std::array<std::byte, 16>;
enum class Side : std::uint8_t { kConnector, kAcceptor };
/// Proves that `side` knows `key` at this moment, since both messages contain random bytes of each side. `binding`: of
/// the TLS connection (tls::Stream::binding); empty without TLS.
LinkProof link_proof(const Key& key, Side side, const HelloBytes& hello, const WelcomeBytes& welcome,
                     ByteView binding = {});

}  // namespace spate::bmi::tcp
