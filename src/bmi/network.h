// SPDX-License-Identifier: Apache-2.0
// The network layer's API, after the BMI paper (docs/references.md: BMI). What goes over each wire: docs/wire.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/strong_id.h"
#include "base/unique_fd.h"

namespace spate::bmi {

/// A peer, opaque to the caller; resolved by lookup() or learnt from an unexpected message. Never reused by an
/// instance.
using Address = StrongId<struct AddressTag>;
/// Matches the messages of one file-system operation (BMI sec. 2.1). Any value.
using Tag = StrongId<struct TagTag>;
/// A posted operation; never reused by an instance.
using OpId = StrongId<struct OpTag>;
/// A completion space (BMI sec. 2.1).
using ContextId = StrongId<struct ContextTag, std::uint32_t>;

/// One piece of a message's payload: memory, or a range of an open file (send only; Spate's addition to the paper, so
/// that a module may use sendfile). The caller owns both and keeps them until the operation's completion is seen.
struct Segment {
  std::byte* memory = nullptr;  // null: a file range
  int fd = -1;
  std::uint64_t offset = 0;  // in the file, bytes
  std::uint64_t size = 0;    // bytes

  static Segment of(MutableByteView view) { return {view.data(), -1, 0, view.size()}; }
  /// For sending; a module never writes through it.
  static Segment of(ByteView view) { return {const_cast<std::byte*>(view.data()), -1, 0, view.size()}; }
  /// A range past the file's end is sent as zeros up to `size` (the promised length always leaves).
  static Segment of_file(int fd, std::uint64_t offset, std::uint64_t size) { return {nullptr, fd, offset, size}; }
};
using SegmentList = std::span<const Segment>;

/// Control and bulk messages never wait for each other; order is kept per (peer, class, tag) only.
enum class MessageClass : std::uint8_t { kControl = 0, kBulk = 1 };

/// A send or receive to be posted. The segment array itself is copied by the post (the memory it points to is not).
struct Message {
  Address peer;
  Tag tag;
  MessageClass message_class = MessageClass::kControl;
  SegmentList segments;
  /// Sends only: the receiver is known to have posted the matching receive (MPI's "ready" mode), so a large message
  /// leaves without rendezvous. If the receive is gone by then the receiver drops the payload and counts it.
  bool receiver_ready = false;
};

/// How an operation ended.
struct Completion {
  OpId op;
  void* user = nullptr;
  Errc status = Errc::kOk;
  /// Receives: bytes that arrived (<= the posted size). Sends: bytes sent. 0 on failure.
  std::uint64_t actual_size = 0;
};

/// A post's outcome: in flight, or done at once (immediate completion, BMI sec. 2.2: no completion will be queued).
struct Posted {
  OpId op;
  bool done = false;
  Completion completion;  // meaningful when done
};

/// A message for which nobody posted a receive: a request (BMI sec. 2.1).
struct UnexpectedMessage {
  Address peer;
  Tag tag;
  Buffer payload;
};

/// A URL that was tried and did not do.
struct FailedUrl {
  std::string url;
  std::string reason;  // for people
};

/// What is known of a peer.
struct PeerInfo {
  std::string url;  // the one in use, or the last one tried; empty before the first use
  bool connected = false;
  std::uint32_t connection = 0;  // counts connections made to or by this peer: changes when it was lost and came back
  bool same_host = false;
  std::optional<std::uint32_t> uid;  // of the peer's process, where the kernel vouches for it (local sockets)
  bool passes_descriptors = false;   // pass_descriptor() may work: connected, by a module that can
  /// The accepting side's address on this connection, as the network names it: where the connecting side's connection
  /// leads, where the accepting side was reached. Both sides see the same text unless somebody stands between them (a
  /// relay, or address translation). Empty: the module cannot tell, or never connected.
  std::string reached;
  std::vector<FailedUrl> failed;  // those whose last attempt failed, in the order of preference
};

/// What peers that connected to this side may hold until Network::admit() is called for them.
struct StrangerLimits {
  /// From the connection to admit(), ms; then the connection is dropped. 0: whoever connects is admitted at once, and
  /// of the other limits only `most` holds, for connections that have not said hello.
  std::uint32_t deadline_ms = 0;
  /// At once, of all sources and of one (an IPv4 address, an IPv6 network of 64 bits, a user of this machine); one
  /// more, and a random one of the most crowded source is dropped.
  std::uint32_t most = 256;
  std::uint32_t most_of_a_source = 32;
  /// What one of them may make this side buffer, bytes per class, and announce, messages per class; whoever goes beyond
  /// it is dropped. Room for the greetings and for `spate ping`.
  std::uint64_t buffered_bytes = 16 * 1024;
  std::uint32_t announced = 16;

  bool apply() const { return deadline_ms != 0; }
};

/// Limits and options that hold for a whole instance.
struct NetworkOptions {
  /// Largest payload of an unexpected message, bytes.
  std::uint64_t max_unexpected_bytes = 256 * 1024;
  /// Expected messages up to this size may leave at once and be buffered at the receiver, bytes.
  std::uint64_t eager_limit_bytes = 16 * 1024;
  /// Larger expected messages up to this size are copied by way of buffers that the device knows, too, unless their
  /// memory is known to it already: below it a copy costs less than a registration (bytes; bench/run bmi figure3b).
  std::uint64_t copy_limit_bytes = 16 * 1024;
  /// What one peer may make this side buffer (unexpected and eager messages not yet taken), bytes per class.
  std::uint64_t buffered_per_peer_bytes = 1024 * 1024;
  /// Per connection attempt.
  std::uint32_t connect_timeout_ms = 3000;
  /// The side that made a connection gives it up when nothing was sent, received or posted for one to one and a half
  /// times this; the next post makes it anew. 0: never.
  std::uint32_t idle_close_ms = 0;
  /// For servers: peers that connect are strangers until the caller knows who they are.
  StrangerLimits strangers = {};
};

/// Something that a module counts; it only grows.
struct NetworkCount {
  std::string_view module;  // its scheme, "tcp"
  std::string_view name;    // "sent_bytes"
  std::uint64_t value = 0;
};

class Module;

/// One instance: modules for several networks, many contexts. Connectionless to the caller; completion is local only;
/// nothing is resent automatically, but a lost connection is made anew by the next post, on the peer's next URL if the
/// current one fails. Thread-safe: posting is legal from any thread; one context is tested by one thread at a time.
/// A hostile or slow peer cannot make this side buffer more than NetworkOptions says.
class Network {
 public:
  virtual ~Network() = default;

  /// Accepts peers at `url` ("tcp://127.0.0.1:7400"; port 0: any free one); their unexpected messages go to `context`.
  /// Returns the URL to give to others. On failure nothing is bound.
  virtual Result<std::string> listen(std::string_view url, ContextId context) = 0;

  /// A new completion space: what is posted in it completes in it alone, whoever tests others (BMI sec. 2.1). Any
  /// thread.
  virtual ContextId open_context() = 0;
  /// Everything posted in it must have completed.
  virtual void close_context(ContextId context) = 0;

  /// The address for a server's URLs in order of preference; no traffic. The same list yields the same address.
  /// kBadAddress: malformed; kNoSuchModule: no URL's module is loaded (an unloaded one among others is skipped).
  virtual Result<Address> lookup(std::span<const std::string> urls) = 0;
  /// As far as is known now; an address that this instance never gave: nothing is.
  virtual PeerInfo peer_info(Address peer) const = 0;
  /// The same peer by its present connection only (of the URL in use): what is posted to this address fails with
  /// kConnectionLost once that connection is gone, instead of following the peer to a new one, where somebody else may
  /// listen. All calls take such an address; disconnect() then ends that connection or none. Equal for as long as the
  /// connection is the same; zero while there is none. Cheap enough to be asked for each message.
  virtual Address bound(Address peer) const = 0;
  /// The peer that an address, bound or not, belongs to: what is the same for all of its connections.
  static Address unbound(Address address) { return Address(address.value & kPeerMask); }
  /// Drops the peer's connections: what is posted to or from it completes with kConnectionLost. It may come back.
  virtual void disconnect(Address peer) = 0;

  /// The caller knows who the peer is: NetworkOptions::strangers no longer holds for its connection. A peer that comes
  /// back by a new connection is a stranger again, under a new address. No effect on a peer that is gone, or was
  /// admitted, or was looked up. Thread-safe; nothing is sent.
  virtual void admit(Address peer) = 0;

  /// Both ends of this connection, and nobody else, know `key`: a module that makes further connections for the same
  /// peer lets in only those whose other end proves it (docs/wire-tcp.md, "Bulk connections"). Both sides call it
  /// before anything of the bulk class is posted; what was made before ends. No effect on a connection that is gone. To
  /// be called again for each connection. Thread-safe; nothing is sent.
  virtual void set_link_key(Address peer, const Key& key) = 0;

  /// The peer's next post begins with its first URL again, whichever it is on by now. For when nothing is in flight to
  /// or from the peer: what is posted stays on the URL where it was posted, and the answer may come by another one.
  virtual void prefer_first_url(Address peer) = 0;
  /// The next post begins with the URL after the one in use (after the last one the first): whoever answers at this one
  /// is not who is wanted. For when nothing is in flight likewise.
  virtual void prefer_next_url(Address peer) = 0;

  /// Hands the peer a copy of an open descriptor; the caller keeps its own. It is there for take_descriptor() when a
  /// message that was posted afterwards arrives. Nothing can be taken back. Never blocks. kNotSupported: this peer
  /// cannot be passed any (peer_info() says so beforehand); kBusy: too many are on their way; else the kernel's reason.
  virtual Result<void> pass_descriptor(Address peer, Tag tag, int fd) = 0;
  /// The oldest descriptor that the peer passed under `tag`, now the caller's (close-on-exec). kNotFound: there is
  /// none. What is not taken is closed with the connection; what comes beyond the module's bound (64 from a server,
  /// none from a client) is closed at once.
  virtual Result<UniqueFd> take_descriptor(Address peer, Tag tag) = 0;

  /// Posts. On success the segments' memory belongs to the operation until its completion is seen, cancelled or not;
  /// on failure nothing was posted. Never blocks. A receive takes the next message with its (peer, class, tag); one
  /// longer than the receive fails it with kMessageTooBig (the message is dropped).
  virtual Result<Posted> post_send(const Message& message, ContextId context, void* user) = 0;
  virtual Result<Posted> post_recv(const Message& message, ContextId context, void* user) = 0;
  /// Payload <= max_unexpected_bytes. Control class always.
  virtual Result<Posted> post_send_unexpected(const Message& message, ContextId context, void* user) = 0;

  /// Asks for an early end. The operation completes, with kCancelled or as it would have, only when neither the device
  /// nor the peer can touch its buffer any more; if need be its connection is dropped. Unknown or complete op: no
  /// effect.
  virtual void cancel(OpId op) = 0;

  /// The next completions of `context` (any operation), at most out.size(); makes progress first. O(completions).
  virtual std::size_t test_context(ContextId context, std::span<Completion> out) = 0;
  /// One operation, or several: their completions if they are there, leaving others queued. Each completion is given
  /// once, by whichever call finds it first. Makes progress first.
  virtual std::optional<Completion> test(ContextId context, OpId op) = 0;
  virtual std::size_t test_some(ContextId context, std::span<const OpId> ops, std::span<Completion> out) = 0;
  /// The next unexpected messages bound to `context`, each peer's in the order in which it sent them; at most
  /// out.size().
  virtual std::size_t test_unexpected(ContextId context, std::span<UnexpectedMessage> out) = 0;

  /// Readable when testing `context` may find something; valid while the context is open; -1 for modules in virtual
  /// time.
  virtual int wait_descriptor(ContextId context) const = 0;
  /// Call before sleeping on the descriptor: false when there is something to test already.
  virtual bool prepare_to_wait(ContextId context) = 0;
  /// The shorter way to sleep: prepare_to_wait() and then, unless there is something to test, the sleep itself, at most
  /// `timeout` (negative: without end). Returns early for no reason, too. One thread at a time for each context. False:
  /// this context cannot (virtual time); nothing was done.
  virtual bool wait(ContextId context, Duration timeout) = 0;
  /// wait(context) also ends when `fd` is readable, until stop_wake_by(); false: it has no wait.
  virtual bool wake_by(ContextId context, int fd) = 0;
  virtual void stop_wake_by(ContextId context, int fd) = 0;

  /// From now on, for the whole instance, posts may keep back what they would send, so that several messages leave by
  /// one system call. It leaves with the next test, wait() or flush_sends(): for callers who soon do one of these.
  virtual void hold_sends() = 0;
  virtual void flush_sends() = 0;

  /// Memory that suits every loaded module (BMI sec. 2.2): page-aligned, in huge pages where there are some, registered
  /// where a module registers, shared where one can then do without a copy. The caller's until mem_free; when there is
  /// none the process ends, as by operator new. Any other memory may be sent and received as well. Thread-safe.
  virtual MutableByteView mem_alloc(std::size_t size) = 0;
  /// Of the whole of what mem_alloc returned, when no operation uses it any more. Thread-safe.
  virtual void mem_free(MutableByteView memory) = 0;

  virtual const NetworkOptions& options() const = 0;
  /// What the modules have counted, for metrics: always the same names in the same order.
  virtual std::vector<NetworkCount> counts() const = 0;

 protected:
  /// A bound address has the connection in the bits above.
  static constexpr unsigned kPeerBits = 40;
  static constexpr std::uint64_t kPeerMask = (std::uint64_t{1} << kPeerBits) - 1;
};

/// Builds an instance over the given modules (bmi/registry.h makes them from their names).
std::unique_ptr<Network> make_network(std::vector<std::unique_ptr<Module>> modules, NetworkOptions options = {});

}  // namespace spate::bmi
