// SPDX-License-Identifier: Apache-2.0
// The device API: what a network module implements below the Network core (BMI sec. 2.3).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/strong_id.h"
#include "base/unique_fd.h"
#include "bmi/network.h"

namespace spate::bmi {

/// A peer as one module knows it: one URL to connect to, or one process that connected to us. The module chooses the
/// values (> 0) and never reuses one.
using PeerId = StrongId<struct PeerTag>;

/// An operation's end as a module reports it.
struct Outcome {
  OpId op;
  Errc status = Errc::kOk;
  /// Receives: bytes that arrived; sends: bytes sent; 0 on failure.
  std::uint64_t actual_size = 0;
};

/// The reports of a module; the core implements it. Calls come from any thread that is inside a call into the module.
/// The module holds none of its locks during a call, because the core may call back (posts, cancel, disconnect).
/// Unexpected messages of one peer are delivered in order, so one thread at a time delivers.
class Sink {
 public:
  virtual ~Sink() = default;

  /// Reports each op exactly once, unless its post reported the outcome. kUnreachable: nothing of the operation left,
  /// and the peer's URL could not be connected. The core then posts the operation again on the address's next URL.
  /// kConnectionLost: the operation may or may not have taken effect; the core never repeats it.
  virtual void completed(std::span<const Outcome> outcomes) = 0;

  /// A process connected to the listener that was bound to `context`. Comes before any other call about that peer.
  /// Returns the peer's address. A peer that comes back (same process, new connection) keeps its PeerId, without a
  /// second call.
  virtual Address inbound(PeerId peer, ContextId context) = 0;

  /// An unexpected message from `peer`, whose address is `address`. `charge` is the module's cost for it. The core
  /// returns it by Module::consumed() when the caller has taken the message.
  virtual void unexpected(PeerId peer, Address address, Tag tag, Buffer payload, std::uint64_t charge) = 0;

  /// An inbound peer is gone and the module has forgotten it. Its operations have completed before, and its PeerId is
  /// never used again.
  virtual void forgotten(PeerId peer, Address address) = 0;
};

/// The low bits of an OpId are its slot, which is small and unique among the operations in flight. So a module can keep
/// its state of an operation in an array (bmi/slot_table.h) instead of a hash table. Compare the whole id to see
/// whether an operation is still the same.
inline constexpr unsigned kOpSlotBits = 24;
inline constexpr std::uint32_t op_slot(OpId op) {
  return static_cast<std::uint32_t>(op.value & ((std::uint64_t{1} << kOpSlotBits) - 1));
}

/// One operation handed to a module.
struct Post {
  OpId op;
  PeerId peer;
  Tag tag;
  MessageClass message_class = MessageClass::kControl;
  bool receiver_ready = false;  // sends; see Message
  /// The array is the core's and is gone after the call. The memory that it points to stays until the op has completed.
  /// The core has checked that the sizes add up to `size` without overflow, and that receives have memory segments
  /// only.
  SegmentList segments;
  std::uint64_t size = 0;  // bytes
  /// connection_mark() of the only connection that the operation may use; 0: any. If the peer has another connection or
  /// none, the post fails with kConnectionLost.
  std::uint32_t connection = 0;
};

/// A connection's mark distinguishes a peer's connections in few bits (1 to 2^18 - 1). It derives from
/// PeerState::connections.
inline constexpr unsigned kConnectionMarkBits = 18;
inline constexpr std::uint32_t connection_mark(std::uint32_t connections) {
  return connections % ((1U << kConnectionMarkBits) - 1) + 1;
}
/// Whether `post` may use the peer's connection number `connections`, or one that is still to be made.
inline constexpr bool may_use(const Post& post, bool connected, std::uint32_t connections) {
  return post.connection == 0 || (connected && post.connection == connection_mark(connections));
}

/// A post's outcome: in flight, or done at once (then Sink::completed is not called for it).
struct PostResult {
  bool done = false;
  std::uint64_t actual_size = 0;  // when done
};

/// What a module knows of a peer.
struct PeerState {
  std::string url;  // inbound peers: the peer's name in the network ("tcp://10.0.0.7:51234"); nobody can connect to it
  bool connected = false;
  std::uint32_t connections = 0;  // established so far
  bool same_host = false;
  std::optional<std::uint32_t> uid;
  std::string reached;   // PeerInfo::reached
  std::string security;  // PeerInfo::security
  Hash binding{};        // PeerInfo::binding
  /// Whether descriptors can be passed to this peer. Only for modules that can pass descriptors.
  bool takes_descriptors = true;
  /// Why the last attempt to connect failed, for people. Empty if it did not fail, or if the module does not say.
  std::string failure;
};

/// A counter of a module. It counts from the module's start and only grows.
struct ModuleCount {
  std::string_view name;  // "sent_bytes"; lower case, lives as long as the program
  std::uint64_t value = 0;
};

/// Fixed properties of a module.
struct Abilities {
  /// A descriptor can be handed to a peer of this module (local sockets): the `bypass` path.
  bool passes_descriptors = false;
  /// Memory that was given to mem_register moves without a copy on this side.
  bool uses_registered_memory = false;
  /// The module implements send_at_once().
  bool sends_at_once = false;
  /// A file segment is sent without passing through this process's memory, as by sendfile.
  bool sends_files_in_kernel = false;
  /// The module runs in the simulation's time. By design it has no wait descriptor.
  bool virtual_time = false;
};

/// One network. Created once per instance, for one URL scheme.
///
/// Life cycle: constructed, start() once, then everything else from any thread; destroyed when no call is inside. The
/// destructor closes every connection and calls nothing upwards. A module keeps to NetworkOptions (limits on what it
/// buffers per peer, timeouts), keeps order per (peer, class, tag), and resends nothing. Nothing that a peer sends may
/// do more than cost that peer its connection.
class Module {
 public:
  virtual ~Module() = default;

  /// "tcp". The module gets the URLs of this scheme and of this scheme with a suffix ("ofi+verbs" for "ofi").
  virtual std::string_view scheme() const = 0;
  virtual Abilities abilities() const = 0;

  /// `sink` and `options` outlive the module. A failure makes the module unusable (and the core skips it).
  virtual Result<void> start(Sink& sink, const NetworkOptions& options) = 0;

  /// Binds and listens; inbound peers are announced with `context`. Returns the URL to give to others (real port).
  /// May be called for several URLs. On failure nothing is bound.
  virtual Result<std::string> listen(std::string_view url, ContextId context) = 0;

  /// Makes a new peer for `url`. Checks the URL's form only (kBadAddress) and causes no traffic. Sink calls about the
  /// peer carry `address`. The module connects at the first post to the peer, and again at the next post after a
  /// connection was lost.
  virtual Result<PeerId> lookup(std::string_view url, Address address) = 0;
  virtual PeerState peer_state(PeerId peer) const = 0;
  /// The module's counters: always the same names in the same order.
  virtual std::vector<ModuleCount> counts() const { return {}; }
  /// PeerState::connections while the peer is connected, else 0.
  virtual std::uint32_t connection(PeerId peer) const {
    const PeerState state = peer_state(peer);
    return state.connected ? state.connections : 0;
  }
  /// Drops the peer's connections. Posted operations complete with kConnectionLost; messages that were buffered from
  /// the peer are dropped.
  virtual void disconnect(PeerId peer) = 0;
  /// Forgets why attempts to connect failed, since from now on somebody else uses the peer, which is disconnected.
  /// Default: no effect, for modules that leave PeerState::failure empty.
  virtual void forget_failure(PeerId /*peer*/) {}
  /// See Network::admit. A process that connects to the module's listeners is unauthenticated until then, if
  /// NetworkOptions says so.
  virtual void admit(PeerId /*peer*/) {}
  /// See Network::set_link_key. `connection`: see Post. Default: no effect, for modules with one connection per peer.
  virtual void set_link_key(PeerId /*peer*/, std::uint32_t /*connection*/, const Key& /*key*/) {}

  /// Posts an operation; never blocks. On failure nothing was posted. kConnectionLost: `post.peer` is inbound and gone.
  virtual Result<PostResult> post_send(const Post& post) = 0;
  virtual Result<PostResult> post_recv(const Post& post) = 0;
  /// Size <= NetworkOptions::max_unexpected_bytes (checked by the core).
  virtual Result<PostResult> post_send_unexpected(const Post& post) = 0;

  /// Sends a message of at most NetworkOptions::eager_limit_bytes if it can leave within this call. It behaves as
  /// post_send() or, if `unexpected`, as post_send_unexpected(), but needs no operation: `post.op` is only an id.
  /// False: it did nothing, and the core posts the message. The core calls it only for modules whose Abilities say so.
  /// Never blocks and calls nothing upwards.
  virtual bool send_at_once(const Post& /*post*/, bool /*unexpected*/) { return false; }

  /// See Network::cancel. Completes `op` through the Sink, in the call or later. Unknown op: no effect.
  virtual void cancel(PeerId peer, OpId op) = 0;

  /// The caller has taken an unexpected message: returns its `charge` (see Sink::unexpected) to the peer's credit.
  virtual void consumed(PeerId peer, std::uint64_t charge) = 0;

  /// Does what can be done without blocking and reports it to the sink. Several threads may call it at the same time;
  /// one may do the work while the others return. Returns true when anything was done.
  virtual bool progress() = 0;
  /// Becomes readable when progress() may find something, deadlines included (connect timeouts). The number does not
  /// change after start(). -1 in virtual time.
  virtual int wait_descriptor() const = 0;
  /// Makes wait_descriptor() readable whenever `fd` is, until `fd` is closed. This saves the sleeper an epoll set of
  /// its own. False: not supported.
  virtual bool also_wait_for(int /*fd*/) { return false; }
  /// Takes back also_wait_for(); `fd` is still open.
  virtual void stop_waiting_for(int /*fd*/) {}
  /// The core calls it before a thread sleeps on the descriptor, and after each progress() while another thread sleeps.
  /// From a true result until the next progress(), all work must show in the descriptor. Returns false if progress()
  /// has work that the descriptor does not show. Several threads may call it at the same time.
  virtual bool prepare_to_wait() = 0;

  /// See Network::pass_descriptor and take_descriptor. Only for modules whose Abilities say so.
  virtual Result<void> pass_descriptor(PeerId /*peer*/, Tag /*tag*/, int /*fd*/) { return Errc::kNotSupported; }
  virtual Result<UniqueFd> take_descriptor(PeerId /*peer*/, Tag /*tag*/) { return Errc::kNotSupported; }
  /// From now on posts may delay their messages, so that several leave with one system call. They leave with the next
  /// flush_sends(), progress() or wait(). Default: posts send at once.
  virtual void hold_sends() {}
  virtual void flush_sends() {}
  /// Sleeps until wait_descriptor() would be readable, for at most `timeout` (negative: without limit). It may receive
  /// messages, so the caller must call progress() next. One thread at a time may sleep; others may call everything
  /// else. False: the module has no sleep of its own, and the caller sleeps on the descriptor.
  virtual bool wait(Duration /*timeout*/) { return false; }
  /// Whether the module supports wait() and also_wait_for().
  virtual bool has_wait() const { return false; }

  /// Makes memory usable by the device until mem_deregister. Default: nothing to do. A failure is not fatal: the module
  /// must also move memory that was never registered.
  virtual Result<void> mem_register(MutableByteView /*memory*/) { return {}; }
  virtual void mem_deregister(MutableByteView /*memory*/) {}
  /// Allocates memory of the module's own kind (a shared segment). Empty: it has none. The core registers the memory
  /// with the other modules. `size` > 0; the result is page-aligned.
  virtual MutableByteView mem_alloc(std::size_t /*size*/) { return {}; }
  virtual void mem_free(MutableByteView /*memory*/) {}
};

}  // namespace spate::bmi
