// SPDX-License-Identifier: Apache-2.0
// Connection: one socket with its send queue. It reads frames and puts payload straight into its destination.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/tcp/frame.h"
#include "bmi/tcp/hello.h"
#include "bmi/tcp/send_queue.h"
#include "tls/stream.h"

namespace spate::bmi::tcp {

class Connection;
class Peer;

/// The target of an epoll event.
struct Pollable {
  enum class Kind : std::uint8_t { kConnection, kListener, kTimer, kResolver, kForeign };
  explicit Pollable(Kind k) : kind(k) {}
  const Kind kind;
};

/// Handles the bytes that a connection receives: first the handshake, then the peer's protocol.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  /// Bytes of the next header, at most Connection::kMaxHeader.
  virtual std::size_t header_size() const = 0;
  /// A header has arrived. May begin Connection::incoming(). False: the other side broke the protocol.
  virtual bool on_header(Connection& connection, const std::byte* bytes) = 0;
  /// The whole payload of the frame has arrived.
  virtual void on_payload(Connection& connection) = 0;
};

/// Memory for received bytes until their place is known. The connections of a module share it, and it holds nothing
/// between two reads. It begins at a page, like data that is sent by sendfile.
struct alignas(4096) ReceiveScratch : std::array<std::byte, 64 * 1024> {};

/// A bulk connection whose ends are proving the link's key to each other.
struct BulkHandshake {
  HelloBytes hello{};
  WelcomeBytes welcome{};
  // Only for the acceptor, where the connection belongs to the peer after the proof.
  PeerId peer;
  std::uint32_t connections = 0;  // Peer::connections
  unsigned channel = 0;
};

enum class ReadStatus : std::uint8_t {
  kDrained,   // nothing more for now; an event follows
  kMore,      // there may be more: call again
  kLost,      // the connection ended or broke
  kProtocol,  // the handler found a breach of the protocol
};

/// Pinned; the module owns it. Not thread-safe: the module's lock guards it. It makes no decisions: the module and the
/// peer own deadlines, states and operations. Life cycle: constructed with a socket -> frames -> close() -> destroyed
/// at the module's next turn.
class Connection : public Pollable {
 public:
  static constexpr std::size_t kMaxHeader = kHelloSize;

  Connection(UniqueFd socket, FrameHandler& handler)
      : Pollable(Kind::kConnection), socket_(std::move(socket)), handler_(&handler) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_.get(); }
  /// The connection is encrypted from its first byte on. Its handshake comes first: see TlsStarts.
  void secure(std::unique_ptr<tls::Stream> stream) { stream_ = std::move(stream); }
  /// Null: a plain connection.
  tls::Stream* stream() const { return stream_.get(); }
  /// Where to send. If there is a TLS handshake, call this after it.
  Outlet outlet() const {
    const bool in_kernel = stream_ == nullptr || stream_->kernel_sends();
    return {socket(), in_kernel ? nullptr : stream_.get()};
  }
  /// tls::Stream::binding(), or empty.
  Bytes binding() const { return stream_ == nullptr ? Bytes() : to_bytes(stream_->binding()); }
  /// Sends a part of the module's own handshake. It fits into the socket's buffer, since little was sent before. False:
  /// it did not fit, and the caller drops the connection.
  bool send_whole(ByteView bytes);
  void set_handler(FrameHandler& handler) { handler_ = &handler; }

  /// Reads until the socket is empty or `limit` bytes (> 0) were read. It may read one system call's worth more.
  ReadStatus read(ReceiveScratch& scratch, std::uint64_t limit);
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// The beginning of a header that has not arrived whole.
  ByteView begun_header() const { return {header_.data(), header_fill_}; }
  /// Where the payload of the current frame goes. The handler sets it for each frame that has a payload, which may have
  /// 0 bytes.
  protocol::Incoming& incoming() { return incoming_; }
  /// Whether it is in the middle of a long message, in either direction.
  bool moves_much();

  /// Ignores everything that arrives from now on.
  void drop_input() { closed_for_input_ = true; }
  /// Closes the socket. The kernel then sends no more from the memory that it was lent, and the caller may use that
  /// memory again.
  void close();

  SendQueue& queue() { return queue_; }

  // The module and the peer set the following members.
  Peer* peer = nullptr;
  std::unique_ptr<BulkHandshake> handshake;
  ContextId context;                      // accepted connections: the listener's context
  std::string remote;                     // for people
  unsigned channel = 0;                   // 0: control
  std::uint64_t segment_bytes = 1;        // payload bytes of a full packet
  bool connecting = false;                // connect(2) has not ended
  bool securing = false;                  // the TLS handshake has not ended
  bool expired = false;                   // it was not open in time
  bool write_blocked = false;             // the socket was full; an event tells when to write again
  bool peer_closed = false;               // an event reported that the peer closed: read to the end
  bool closed = false;                    // freed at the next turn
  bool from_this_host = false;            // the other end is on this machine
  bool held = false;                      // in the module's list of connections to be flushed
  std::uint64_t posted_in_turn = 0;       // the turn in which a post of this side last sent by it
  bool due = false;                       // in the module's list of connections that wait for their slice
  bool to_read = false;                   // its slice has something to read
  bool to_write = false;                  // its slice has something to write
  MonoTime accepted_at;                   // when this side accepted it
  MonoTime deadline = MonoTime::never();  // when to drop it: for the handshake, the admission or a cancelled send
  std::uint64_t grace_position = 0;       // position of the cancelled send's frame, while `deadline` is for one

 private:
  bool parse(const std::byte* data, std::uint64_t size);
  void finish_payload();
  std::uint64_t read_ahead(std::uint64_t direct) const;
  bool lands_slowly() const;
  std::uint64_t gather_direct(Pieces& pieces, std::uint64_t limit);
  void store(const std::byte* data, std::uint64_t size);
  ReadStatus read_some(ReceiveScratch& scratch, std::uint64_t limit);
  void wake_for_payload();
  std::uint64_t arrived_so_far() const { return incoming_.header.length - incoming_.left; }

  UniqueFd socket_;
  std::unique_ptr<tls::Stream> stream_;
  FrameHandler* handler_;
  bool closed_for_input_ = false;
  SendQueue queue_;
  protocol::Incoming incoming_;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t last_payload_ = 0;  // size of the last payload, which decides how much is read ahead
  std::size_t header_fill_ = 0;
  std::uint64_t low_water_ = 1;  // SO_RCVLOWAT
  std::array<std::byte, kMaxHeader> header_{};
};

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
