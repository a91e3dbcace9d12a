// SPDX-License-Identifier: Apache-2.0
// The messages of a link's socket: Hello, Welcome, and notes afterwards. docs/wire-shm.md, "Handshake" and "Notes".
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "bmi/protocol/handshake.h"
#include "bmi/protocol/limits.h"
#include "bmi/shm/frame.h"
#include "bmi/shm/layout.h"
#include "bmi/shm/policy.h"

namespace spate::bmi::shm {

using protocol::Limits;
using protocol::LinkId;
using protocol::reserve_of;

inline constexpr std::uint16_t kVersionMin = 1;
inline constexpr std::uint16_t kVersionMax = 2;
inline constexpr protocol::Versions kVersions{kVersionMin, kVersionMax};
inline constexpr std::uint16_t kVersionOfNarrowLanes = 2;

/// The connector's first packet. The descriptor of its bell comes with it.
struct Hello {
  protocol::Versions versions = kVersions;
  LinkId link{};
  Limits limits;
  friend bool operator==(const Hello&, const Hello&) = default;
};

/// The answer to a Hello. Unless the acceptor refuses, the descriptors of the segment and of its bell come with it.
struct Welcome {
  Errc status = Errc::kOk;  // another value: the acceptor refuses, and closes the socket afterwards
  std::uint16_t version = kVersionMax;
  AccessPolicy::Kind policy = AccessPolicy::Kind::kSameUser;
  Limits limits;
  Geometry geometry;
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

/// The messages that may follow on the socket.
struct Note {
  enum class Kind : std::uint8_t {
    kBell = 1,        // the sender has written to the segment
    kArena = 2,       // with an arena's descriptor: number `number`, `value` bytes
    kDescriptor = 3,  // with a descriptor that the peer passes; `value`: its tag
    kLanes = 4,       // with the memory of the full lanes: from the acceptor, once, before the first kWiden
  };
  Kind kind = Kind::kBell;
  std::uint32_t number = 0;
  std::uint64_t value = 0;
  friend bool operator==(const Note&, const Note&) = default;
};

inline constexpr std::size_t kHelloSize = 64;
inline constexpr std::size_t kWelcomeSize = 64;
inline constexpr std::size_t kNoteSize = 16;

Bytes encode(const Hello& hello);
Bytes encode(const Welcome& welcome);
std::array<std::byte, kNoteSize> encode(const Note& note);
/// Empty when the bytes are no such message of any version, or a field is out of range. A Hello or Welcome of an
/// unknown version is decoded, too, because its first 16 bytes are the same in every version.
std::optional<Hello> decode_hello(ByteView bytes);
std::optional<Welcome> decode_welcome(ByteView bytes);
std::optional<Note> decode_note(ByteView bytes);

}  // namespace spate::bmi::shm
