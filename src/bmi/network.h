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
#include "base/kdf.h"
#include "base/result.h"
#include "base/strong_id.h"
#include "base/unique_fd.h"

namespace spate::bmi {

/// A peer, opaque to the caller. lookup(), claim() or an unexpected message yields it. An instance reuses only those of
/// claim(), and not before release().
using Address = StrongId<struct AddressTag>;
/// Matches the messages of one file-system operation (BMI sec. 2.1). Any value.
using Tag = StrongId<struct TagTag>;
/// A posted operation. An instance never reuses an id.
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
  /// For sending only: a module never writes through it.
  static Segment of(ByteView view) { return {const_cast<std::byte*>(view.data()), -1, 0, view.size()}; }
  /// Bytes after the file's end are sent as zeros up to `size`, so the promised length always leaves.
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
  /// leaves without rendezvous. If the receive is gone when the message arrives, the receiver drops the payload and
  /// counts the message as dropped.
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

/// A URL that was tried without success.
struct FailedUrl {
  std::string url;
  std::string reason;  // for people
};

/// The known state of a peer.
struct PeerInfo {
  std::string url;  // the URL in use, or the last one tried; empty before the first use
  bool connected = false;
  /// Counts the connections made to or by this peer, so it changes when the peer is lost and comes back.
  std::uint32_t connection = 0;
  bool same_host = false;
  std::optional<std::uint32_t> uid;  // the user of the peer's process, if the kernel vouches for it (local sockets)
  /// pass_descriptor() may work: the peer is connected, by a module that can pass descriptors.
  bool passes_descriptors = false;
  /// The accepting side's address on this connection, as the network names it. Both sides see the same text unless a
  /// relay or address translation is between them. Empty: the module cannot tell, or never connected.
  std::string reached;
  /// How the network encrypts this connection, for people; empty: it does not.
  std::string security;
  /// A value that only the two ends of an encrypted connection share. A relay between them has another value on each
  /// side. Zeros: the network does not encrypt the connection.
  Hash binding{};
  std::vector<FailedUrl> failed;  // the URLs whose last attempt failed, in order of preference
};

/// Limits for peers that connected to this side until Network::admit() is called for them.
struct UnauthenticatedPeerLimits {
  /// The time from the connection to admit(), ms. After it the connection is dropped. 0: every peer is admitted at
  /// once, and of the other limits only `most` holds, for connections that have not sent their hello.
  std::uint32_t deadline_ms = 0;
  /// How many unauthenticated peers may be connected at a time, from all sources and from one. A source is an IPv4
  /// address, an IPv6 network of 64 bits, or a user of this machine. If there is one more, the module drops a random
  /// unauthenticated peer of the most crowded source.
  std::uint32_t most = 256;
  std::uint32_t most_of_a_source = 32;
  /// How much one unauthenticated peer may make this side buffer (bytes per class) and announce (messages per class).
  /// An unauthenticated peer that exceeds it is dropped. It suffices for handshakes and for `spate ping`.
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
  /// Larger expected messages up to this size, bytes, are copied through registered buffers as well, unless their
  /// memory is registered already: below this size a copy costs less than a registration (bench/run bmi figure3b).
  std::uint64_t copy_limit_bytes = 16 * 1024;
  /// How much one peer may make this side buffer (unexpected and eager messages that are not taken yet), bytes per
  /// class.
  std::uint64_t buffered_per_peer_bytes = 1024 * 1024;
  /// The limit of one attempt to connect.
  std::uint32_t connect_timeout_ms = 3000;
  /// The side that made a connection closes it when it has sent, received and posted nothing for one to one and a half
  /// times this. The next post connects again. 0: never.
  std::uint32_t idle_close_ms = 0;
  /// For servers: peers that connect are unauthenticated until the caller has identified them.
  UnauthenticatedPeerLimits unauthenticated = {};
};

/// A counter of a module. It only grows.
struct NetworkCount {
  std::string_view module;  // its scheme, "tcp"
  std::string_view name;    // "sent_bytes"
  std::uint64_t value = 0;
};

class Module;

/// One instance: modules for several networks, many contexts. The caller sees no connections. A completion is local: it
/// says nothing about the peer's program. Nothing is resent, but the next post after a lost connection connects again,
/// by the peer's next URL if the current one fails. Thread-safe: any thread may post; one thread at a time tests a
/// context. Life cycle: make_network() -> open_context(), listen() -> post and test -> every operation completed,
/// contexts closed -> destroyed, which closes all connections. A hostile or slow peer cannot make this side buffer more
/// than NetworkOptions permits.
class Network {
 public:
  virtual ~Network() = default;

  /// Accepts peers at `url` ("tcp://127.0.0.1:7400"; port 0: any free one); their unexpected messages go to `context`.
  /// Returns the URL to give to others. On failure nothing is bound.
  virtual Result<std::string> listen(std::string_view url, ContextId context) = 0;

  /// Opens a completion space. Operations that are posted in it complete in it and in no other one (BMI sec. 2.1). Any
  /// thread.
  virtual ContextId open_context() = 0;
  /// Closes a context. All its operations must have completed, and their completions must have been taken.
  virtual void close_context(ContextId context) = 0;

  /// The address for a server's URLs in order of preference; no traffic. The same list yields the same address.
  /// kBadAddress: malformed; kNoSuchModule: no URL's module is loaded (an unloaded one among others is skipped).
  virtual Result<Address> lookup(std::span<const std::string> urls) = 0;
  /// The same, but the address is the caller's alone until release(): neither lookup() nor another claim() yields it,
  /// so nobody else sends over its connection. For peers that agree on something by connection, such as keys.
  virtual Result<Address> claim(std::span<const std::string> urls) = 0;
  /// Gives back what claim() yielded, ends its connection, and drops unexpected messages of it that nobody has taken.
  /// Nothing may be in flight to or from it. A later claim() of the same list may yield it again, with a new
  /// connection. No effect on an address that nobody has claimed.
  virtual void release(Address claimed) = 0;
  /// The present state of a peer. Empty for an address that this instance never gave.
  virtual PeerInfo peer_info(Address peer) const = 0;
  /// An address that means only the peer's present connection. Once that connection is gone, posts to it fail with
  /// kConnectionLost. They do not follow the peer to a new connection, where another process may listen. All calls
  /// accept such an address; disconnect() ends that connection or none. The value is the same as long as the connection
  /// is the same, and zero while there is none. It is cheap enough to call for each message.
  virtual Address bound(Address peer) const = 0;
  /// The peer's address without a connection, from an address that may be bound. It is the same for all connections of
  /// the peer.
  static Address unbound(Address address) { return Address(address.value & kPeerMask); }
  /// Drops the peer's connections. Operations posted to or from it complete with kConnectionLost. The peer may connect
  /// again.
  virtual void disconnect(Address peer) = 0;

  /// The caller has identified the peer: NetworkOptions::unauthenticated no longer limits its connection. A peer that
  /// connects anew is unauthenticated again, under a new address. No effect on a peer that is gone, was admitted
  /// before, or was looked up. Thread-safe; sends nothing.
  virtual void admit(Address peer) = 0;

  /// Only the two ends of this connection know `key`. A module that makes further connections for the same peer accepts
  /// only those whose other end proves the key (docs/wire-tcp.md, "Bulk connections"). Both sides call it for each
  /// connection, before they post anything of the bulk class. Bulk connections that were made before end. No effect on
  /// a connection that is gone. Thread-safe; sends nothing.
  virtual void set_link_key(Address peer, const Key& key) = 0;

  /// Makes the next post to the peer start with the peer's first URL again. Call it only while nothing is in flight to
  /// or from the peer: operations stay on the URL where they were posted, and their answer could arrive by another one.
  virtual void prefer_first_url(Address peer) = 0;
  /// Makes the next post start with the URL after the current one (after the last one the first), since the process
  /// that answers at the current URL is the wrong one. Call it only while nothing is in flight, as above.
  virtual void prefer_next_url(Address peer) = 0;

  /// Passes the peer a copy of an open descriptor; the caller keeps its own. When a message that was posted afterwards
  /// arrives, the peer's take_descriptor() finds the copy. It cannot be taken back. Never blocks. kNotSupported: this
  /// peer can receive none (see peer_info()); kBusy: too many are under way; else the kernel's reason.
  virtual Result<void> pass_descriptor(Address peer, Tag tag, int fd) = 0;
  /// Takes the oldest descriptor that the peer passed under `tag`. The caller owns it (close-on-exec). kNotFound: there
  /// is none. Descriptors that nobody takes are closed with the connection. Those beyond the module's bound (64 from a
  /// server, none from a client) are closed at once.
  virtual Result<UniqueFd> take_descriptor(Address peer, Tag tag) = 0;

  /// Posts an operation. On success the segments' memory belongs to the operation until its completion is seen, even if
  /// it is cancelled; on failure nothing was posted. Never blocks. A receive takes the next message with its (peer,
  /// class, tag). A message longer than the receive fails it with kMessageTooBig and is dropped.
  virtual Result<Posted> post_send(const Message& message, ContextId context, void* user) = 0;
  virtual Result<Posted> post_recv(const Message& message, ContextId context, void* user) = 0;
  /// Payload <= max_unexpected_bytes. Always of the control class.
  virtual Result<Posted> post_send_unexpected(const Message& message, ContextId context, void* user) = 0;

  /// Asks for an early end of the operation. It completes, with kCancelled or as it would have, only when neither the
  /// device nor the peer can touch its buffer any more. If necessary, the module drops the operation's connection. No
  /// effect on an unknown or complete op.
  virtual void cancel(OpId op) = 0;

  /// Makes progress, then yields the next completions of `context`, at most out.size(). O(completions).
  virtual std::size_t test_context(ContextId context, std::span<Completion> out) = 0;
  /// Makes progress, then yields the completions of one operation, or of several, if they are there; others stay
  /// queued. Each completion is given once, by the first call that finds it.
  virtual std::optional<Completion> test(ContextId context, OpId op) = 0;
  virtual std::size_t test_some(ContextId context, std::span<const OpId> ops, std::span<Completion> out) = 0;
  /// Yields the next unexpected messages for `context`, at most out.size(). The messages of one peer come in the order
  /// in which the peer sent them.
  virtual std::size_t test_unexpected(ContextId context, std::span<UnexpectedMessage> out) = 0;

  /// Becomes readable when testing `context` may find something. Valid while the context is open. -1 for modules in
  /// virtual time.
  virtual int wait_descriptor(ContextId context) const = 0;
  /// Call it before sleeping on the descriptor. Returns false if there is something to test already.
  virtual bool prepare_to_wait(ContextId context) = 0;
  /// Calls prepare_to_wait() and, unless there is something to test, sleeps for at most `timeout` (negative: without
  /// limit). May return early for no reason. One thread at a time for each context. False: this context cannot sleep
  /// (virtual time); it did nothing.
  virtual bool wait(ContextId context, Duration timeout) = 0;
  /// Makes wait(context) also end when `fd` is readable, until stop_wake_by(). False: the context has no wait().
  virtual bool wake_by(ContextId context, int fd) = 0;
  virtual void stop_wake_by(ContextId context, int fd) = 0;

  /// From now on posts of the whole instance may delay their messages, so that several leave with one system call. They
  /// leave with the next test, wait() or flush_sends(). Only for callers that call one of these soon.
  virtual void hold_sends() = 0;
  virtual void flush_sends() = 0;

  /// Allocates memory that suits every loaded module (BMI sec. 2.2): page-aligned, in huge pages where available,
  /// registered with modules that register, shared where that saves a module a copy. The caller owns it until
  /// mem_free(). Ends the process if memory is exhausted, as operator new does. Any other memory may be sent and
  /// received as well. Thread-safe.
  virtual MutableByteView mem_alloc(std::size_t size) = 0;
  /// Frees the whole memory that mem_alloc() returned. No operation may use it any more. Thread-safe.
  virtual void mem_free(MutableByteView memory) = 0;

  virtual const NetworkOptions& options() const = 0;
  /// The counters of all modules, for metrics: always the same names in the same order.
  virtual std::vector<NetworkCount> counts() const = 0;

 protected:
  /// A bound address names its connection in the bits above these.
  static constexpr unsigned kPeerBits = 40;
  static constexpr std::uint64_t kPeerMask = (std::uint64_t{1} << kPeerBits) - 1;
};

/// Builds an instance over the given modules (bmi/registry.h makes them from their names).
std::unique_ptr<Network> make_network(std::vector<std::unique_ptr<Module>> modules, NetworkOptions options = {});

}  // namespace spate::bmi
