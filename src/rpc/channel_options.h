// SPDX-License-Identifier: Apache-2.0
// The options of a channel and of one call, and what a caller gives and gets with a call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "job/network.h"
#include "job/stop.h"
#include "model/cluster_map.h"
#include "rpc/identity.h"
#include "wire/bulk_seals.h"
#include "wire/header.h"

namespace spate::rpc {

/// The parameters of one call.
struct CallOptions {
  MonoTime deadline = MonoTime::never();
  wire::RequestId id;                      // for a change at a meta server; kNoSlot for a request that may run twice
  const Capability* capability = nullptr;  // io requests
  wire::Priority priority = wire::Priority::kNormal;
  std::uint32_t reply_room = 16 * 1024;  // bytes, header included
  job::StopToken stop;
  /// If set, the request is sent only in this epoch of this session: kSessionFenced once another epoch has begun,
  /// kSessionUnknown once there is another session. Unset: it is sent in the current one.
  std::optional<SessionEpoch> only_in;
  bool handshake = true;  // false: no handshake first, for requests that a server answers to anybody (ping)
  /// Trace id of the operation that this request is part of. The logs of all servers show the same id. 0: a new one.
  TraceId trace;
  /// Called before each attempt: posts the bulk operations of the request. Null: none. Not owned.
  class Bulk* bulk = nullptr;
};

/// The bulk operations of one request. Each attempt posts them again, with a new tag.
class Bulk {
 public:
  virtual ~Bulk() = default;
  /// Posts them to `peer`. `seals`: codes of the messages (each begins with one); null: the messages have none.
  virtual void post(bmi::Address peer, bmi::Tag reply_tag, const std::shared_ptr<wire::BulkSeals>& seals) = 0;
  /// The attempt has failed: cancels the posted operations and waits until the network no longer uses their memory.
  virtual job::Task<void> abandon() = 0;
};

struct RawReply {
  wire::ReplyHeader header;
  Buffer message;              // owns the bytes
  ByteView body;               // a part of message
  std::uint64_t features = 0;  // the features agreed on when the request was sent
};

class Channel;

/// Observes when channels begin and end, and their calls. Called on the executor's thread.
class ChannelObserver {
 public:
  virtual ~ChannelObserver() = default;
  virtual void begins(const Channel& channel) = 0;
  virtual void ends(const Channel& channel) = 0;
  virtual void call_begins() = 0;
};

struct ChannelOptions {
  std::vector<std::string> urls;
  ServerId server;  // expected server; 0: any (first contact)
  /// An attempt without an answer ends after this time. The next one uses a new connection (to the next URL).
  Duration attempt_timeout = std::chrono::seconds(10);
  /// Each attempt that ends so doubles the time of the next ones, up to `most_patience` times the usual one; quick
  /// answers halve it (rpc/patience.h). A power of two. With `group_silence`: see there.
  std::uint32_t most_patience = 1;
  Duration first_backoff = std::chrono::milliseconds(20);
  Duration longest_backoff = std::chrono::seconds(1);
  /// If the server was found at a later URL than its first, the channel tries the first URL again after this time. Each
  /// time that this fails it waits twice as long, up to `longest_return`.
  Duration first_return = std::chrono::seconds(30);
  Duration longest_return = std::chrono::minutes(10);
  /// The URLs are those of several servers, of which one at a time answers requests; the others refuse them with
  /// kNotPrimary, and the next URL is tried. A server that has been silent for this long gets a ping. It is given up if
  /// it does not answer in half that time. Hello has as long, too, and authenticate four times as long. These waits,
  /// not `attempt_timeout`, grow with `most_patience`. 0: the URLs are those of one server, which may be silent for
  /// `attempt_timeout`.
  Duration group_silence{0};
  /// The channel's incarnations are larger. An earlier process of this client has used those up to this one.
  std::uint64_t incarnations_above = 0;
  /// Observes the calls; null: nobody does. Not owned, outlives the channel.
  ChannelObserver* watch = nullptr;
};

/// How long a server of a group may be silent, see above.
inline constexpr Duration kGroupSilence = std::chrono::seconds(1);
/// A network that is slow by seconds makes hello take twice that.
inline constexpr std::uint32_t kMostPatience = 16;
/// The options for one server, or for the meta servers of a group (ClusterMap::meta_server()).
ChannelOptions channel_to(const ServerEntry& server);

}  // namespace spate::rpc
