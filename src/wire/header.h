// SPDX-License-Identifier: Apache-2.0
// The headers of all requests and replies (docs/wire.md, "Request header", "Reply header").
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "model/capability.h"
#include "model/ids.h"
#include "wire/archive.h"
#include "wire/op.h"

namespace spate::wire {

constexpr std::uint16_t kProtocolVersion = 2;
constexpr std::uint16_t kOldestProtocolVersion = 1;

/// Optional abilities. Hello negotiates those that both sides have.
enum Feature : std::uint64_t {
  kFeatureNone = 0,
  kFeatureLeases = 1,        // replies to changes begin with the touched objects (lease_messages.h)
  kFeatureGrants = 2,        // and then they list what the client may cache of them; only with leases
  kFeatureLists = 4,         // the server has list_lease
  kFeatureFlushes = 8,       // the server has datafile_flush
  kFeatureAllocates = 16,    // the server has datafile_allocate
  kFeatureBatches = 32,      // the server has change_batch
  kFeatureCloses = 64,       // the server has close_writers
  kFeatureMirrors = 128,     // knows files whose slots are groups of targets (mirror_messages.h)
  kFeatureRacks = 256,       // knows racks in cluster maps, and in join_server
  kFeatureGathers = 512,     // the client may gather writes; others wait until it has sent them (docs/wire.md)
  kFeatureDelegates = 1024,  // the client may answer changes itself in directories delegated to it, and queues them
  kFeatureRemoves = 2048,    // unlink, rmdir and open may be among the queued changes
};
/// The features of a client that caches attributes.
constexpr std::uint64_t kLeaseFeatures = kFeatureLeases | kFeatureGrants | kFeatureLists;
/// The features of a server of this version. A client asks for those that it uses.
constexpr std::uint64_t kOurFeatures = kLeaseFeatures | kFeatureFlushes | kFeatureAllocates | kFeatureBatches |
                                       kFeatureCloses | kFeatureMirrors | kFeatureRacks | kFeatureGathers |
                                       kFeatureDelegates | kFeatureRemoves;

enum class Priority : std::uint8_t { kControl = 0, kNormal = 1, kBackground = 2 };

/// Identifies one of a client's requests: (client, slot, sequence) is never used twice. A client uses a slot for one
/// request at a time and raises the sequence with each new request; a resend repeats both. Slot kNoSlot: the request
/// may run again without harm.
struct RequestId {
  static constexpr std::uint16_t kNoSlot = 0xFFFF;
  std::uint16_t slot = kNoSlot;
  std::uint64_t sequence = 0;
  template <typename A>
  void fields(A& a) {
    a(slot, sequence);
  }
};

struct RequestHeader {
  static constexpr std::string_view kName = "request header";
  std::uint16_t version = kProtocolVersion;
  Op op = Op::kPing;
  FsId fs;
  ClientId client;
  std::uint32_t session_epoch = 0;
  std::uint64_t map_version = 0;
  TraceId trace;
  Priority priority = Priority::kNormal;
  /// Time left until the caller's deadline when it sent this, ms. The server gives up after that. 0: no deadline.
  std::uint32_t deadline_ms = 0;
  /// The largest reply (header included) for which the caller has posted room, bytes.
  std::uint32_t reply_room = 0;
  RequestId id;
  /// io requests: the right to carry it out.
  std::optional<Capability> capability;

  template <typename A>
  void fields(A& a) {
    a(version, op, fs, client, session_epoch, map_version, trace, priority, deadline_ms, reply_room, id, capability);
  }
};

struct ReplyHeader {
  static constexpr std::string_view kName = "reply header";
  std::uint16_t version = kProtocolVersion;
  Errc status = Errc::kOk;
  // With an error: text for people, at most 512 bytes. With kCrossDevice: see NamePath::kRootedLinks and context_of().
  std::string context;
  Incarnation incarnation;
  std::uint64_t map_version = 0;

  template <typename A>
  void fields(A& a) {
    a(version, status, context, incarnation, map_version);
  }
};

/// The text that is sent with an error's code. It includes the code's own sentence, and is empty if the error has no
/// more than that. Only a server knows whether an error's context tells everything.
std::string context_of(const Error& error);
/// The error that a reply reports by its status and context.
Error error_of(Errc status, std::string context);

}  // namespace spate::wire
