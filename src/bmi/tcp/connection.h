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
  /// The expected payload has arrived.
  virtual void on_payload(Connection& connection) = 0;
};

/// Shared by the connections of a module; holds nothing between two reads. It begins at a page, like data that is sent
/// by sendfile.
struct alignas(4096) ReceiveScratch : std::array<std::byte, 64 * 1024> {};

/// A bulk connection whose ends are proving the link's key to each other.
struct BulkHandshake {
  HelloBytes hello{};
  WelcomeBytes welcome{};
  // The acceptor's side, which belongs to the peer only afterwards.
  PeerId peer;
  std::uint32_t connections = 0;  // Peer::connections
  unsigned channel = 0;
};

enum class ReadStatus : std::uint8_t {
  kDrained,   // nothing more for now: an event follows
  kMore,      // there may be more: call again
  kLost,      // the connection ended or broke
  kProtocol,  // the handler refused
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
  void set_handler(FrameHandler& handler) { handler_ = &handler; }

  /// Reads until the socket is drained or `limit` bytes were read (> 0; one system call's worth more at most).
  ReadStatus read(ReceiveScratch& scratch, std::uint64_t limit);
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// The handler fills it in for a frame with a payload (which may be of 0 bytes).
  protocol::Incoming& incoming() { return incoming_; }
  /// Whether it is in the middle of a long message, in or out.
  bool moves_much();

  /// Ignores everything that arrives from now on.
  void drop_input() { closed_for_input_ = true; }
  /// Closes the socket. The kernel sends nothing more of the memory that it was lent, and the caller may use that
  /// memory again.
  void close();

  SendQueue& queue() { return queue_; }

  // Set by the module and the peer.
  Peer* peer = nullptr;
  std::unique_ptr<BulkHandshake> handshake;
  ContextId context;                      // accepted: of its listener
  std::string remote;                     // for people
  unsigned channel = 0;                   // 0: control
  std::uint64_t segment_bytes = 1;        // payload of a packet
  bool connecting = false;                // connect(2) has not ended
  bool expired = false;                   // it was not open in time
  bool write_blocked = false;             // the socket was full: wait for an event before writing
  bool peer_closed = false;               // an event reported it: read to the end
  bool closed = false;                    // taken down; freed at the next turn
  bool from_this_host = false;            // the other end is on this machine
  bool held = false;                      // in the module's list of those to be flushed
  std::uint64_t posted_in_turn = 0;       // the module's turn in which this side last sent by a post
  bool due = false;                       // in the module's list of those that wait for their slice, for ...
  bool to_read = false;                   // ... reading
  bool to_write = false;                  // ... or writing
  MonoTime accepted_at;                   // by this side
  MonoTime deadline = MonoTime::never();  // handshake, admission, or a cancelled send: then it is dropped
  std::uint64_t grace_position = 0;       // the cancelled send's frame, while `deadline` runs for one

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
  FrameHandler* handler_;
  bool closed_for_input_ = false;
  SendQueue queue_;
  protocol::Incoming incoming_;
  std::uint64_t bytes_read_ = 0;
  std::uint64_t last_payload_ = 0;  // guides how much is read ahead
  std::size_t header_fill_ = 0;
  std::uint64_t low_water_ = 1;  // SO_RCVLOWAT
  std::array<std::byte, kMaxHeader> header_{};
};

}  // namespace spate::bmi::tcp
