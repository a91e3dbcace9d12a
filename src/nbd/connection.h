// SPDX-License-Identifier: Apache-2.0
// Connection: one client, from the handshake to the end.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "job/executor.h"
#include "job/gate.h"
#include "nbd/chosen_export.h"
#include "nbd/device.h"
#include "nbd/input.h"
#include "nbd/memory_budget.h"
#include "nbd/negotiation.h"
#include "nbd/output.h"
#include "nbd/pipes.h"
#include "nbd/socket_source.h"
#include "nbd/transport.h"

namespace spate::nbd {

class Connection;

/// The client of a connection.
struct ClientAddress {
  std::string text;              // for the log: "127.0.0.1:4711", "unix uid=1000"
  std::vector<std::uint8_t> ip;  // 4 or 16 bytes; empty for a Unix socket
};

/// The functions of the server that connections call. Outlives them.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  /// The exports that this peer may use.
  virtual std::unique_ptr<Catalogue> catalogue(const ClientAddress& peer) = 0;
  /// The export with that name in the peer's catalogue.
  virtual Device& device(const std::string& name) = 0;
  /// Makes the server's side of TLS. kNotSupported without certificates and keys.
  virtual Result<std::unique_ptr<Transport>> start_tls(int socket) = 0;
  /// The connection has ended completely. The server destroys it, but not within this call.
  virtual void ended(Connection& connection) = 0;
};

// From this size on sendfile costs the server less CPU per byte than a copy into a gathered reply. Measured by
// bench/nbd on loopback with requests of 8 to 64 KiB, 16 at once: over TCP 0.53 s/GiB copied and 0.59 sent at 16 KiB,
// 0.51 and 0.40 at 24 KiB; over a Unix socket 0.69 and 0.52 at 8 KiB.
inline constexpr std::uint32_t kSendFileFromTcp = 24U * 1024;
inline constexpr std::uint32_t kSendFileFromUnix = 8U * 1024;

// From this size on a payload (at most as large as a pipe) goes from the socket to a file through a pipe, copied once
// instead of twice. A Unix socket holds less than one payload, which then arrives in many small pieces. Measured in the
// same way with writes at depth 16 to a file in memory: 256 KiB over a Unix socket take 0.50 s/GiB through a pipe and
// 0.43 copied. From 384 KiB on copied payloads cannot reuse a buffer.
inline constexpr std::uint32_t kSplicedFromTcp = 128U * 1024;
inline constexpr std::uint32_t kSplicedFromUnix = ReplyBuffers::kBytes + 1;

/// The payload of a write, in memory or in a pipe.
struct Payload {
  Buffer memory;
  Pipe pipe;
  MemoryBudget::Hold hold;  // of the memory
};

/// Objects that all connections share. They outlive the connections.
struct ConnectionWorld {
  job::Executor& executor;
  SocketSource& sockets;
  ReplyBuffers& buffers;
  Pipes& pipes;
  std::size_t& memory_in_flight;  // bytes of all connections' requests under way
  MemoryBudget& budget;           // for payloads and replies that have memory of their own
  ConnectionHost& host;
  NegotiationPolicy policy;
  /// Reads of at least this many bytes are sent from the page cache without a copy; smaller ones are gathered.
  std::uint32_t send_file_from = kSendFileFromTcp;
  /// Payloads of this many bytes or more go through a pipe.
  std::uint32_t spliced_from = kSplicedFromTcp;
  /// A client that has not chosen an export within this time is dropped.
  Duration negotiation_time = std::chrono::seconds(30);
};

/// Counters of a connection, for the log.
struct Traffic {
  std::uint64_t requests = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t sent_by_file_bytes = 0;  // of read_bytes
  std::uint64_t written_bytes = 0;
};

/// Handles many requests at a time; replies leave in the order in which they are ready. Not thread-safe: one executor.
/// Pinned. Life cycle: start() once -> host.ended() once -> destroyed by the host, not within that call. Requests that
/// have begun run to their end, even if the client is gone; host.ended() waits for them, so the destructor waits for
/// nothing. finish(), abandon() and drop_if_stalled() may be called at any time until the destruction, in any order and
/// repeatedly; none of them calls host.ended() itself, but start() and on_ready() may.
///
/// Bytes (connection.cc) and requests (requests.cc) are chapters of one class: both work on the input, on the payload
/// that is being received, and on the output, whose state decides when the connection goes on and when it ends.
class Connection final : public ReadyHandler {
 public:
  Connection(ConnectionWorld& world, UniqueFd socket, ClientAddress peer);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  /// Accepts no more requests. The connection ends when all requests in flight are answered.
  void finish();
  /// Ends as soon as no request runs. Unsent replies are dropped.
  void abandon(std::string_view why);
  void on_ready(std::uint32_t events) override;
  /// Other connections wait for memory: ends this one if its client has made no progress for too long while it held
  /// memory.
  void drop_if_stalled();

 private:
  enum class Phase : std::uint8_t { kNegotiation, kTransmission };

  // connection.cc: receives and sends bytes.
  void pump();
  void schedule_pump();
  bool receive();
  void take_input();
  void take_negotiation();
  void begin_tls();
  void begin_look();
  job::Task<void> look(Device& device);
  void begin_transmission();
  void flush();
  void update_interest();
  void end_if_idle();
  bool paused() const;
  void count_input(std::size_t n);
  bool receive_to_pipe();
  bool leave_pipe();
  void drop_dead();

  // requests.cc: the transmission phase.
  bool take_request();
  bool take_write(const Request& request);
  void begin_request(const Request& request);
  bool is_sent(const Request& request) const;
  void read(const Request& request);
  bool read_gathered(const Request& request);
  void send_from_file(const Request& request, int fd);
  void begin_write(const Request& request, ByteView payload);
  void end_payload();
  bool payload_memory(std::size_t size, Payload& payload);
  void refuse(const Request& request, Failure failure);
  void answer(const Request& request, Failure failure);
  void spawn(const Request& request, Payload payload);
  job::Task<void> run(Request request, Payload payload);
  job::Task<Failure> execute(const Request& request, const Payload& payload);
  void give_back(Payload payload, bool emptied);
  job::Task<Failure> execute_read(const Request& request);
  job::Task<Failure> execute_status(const Request& request);

  ConnectionWorld& world_;
  UniqueFd socket_;
  ClientAddress peer_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Catalogue> catalogue_;
  Negotiation negotiation_;
  job::Executor::Timer negotiation_timer_;
  job::Gate gate_;
  Output output_;
  Phase phase_ = Phase::kNegotiation;
  std::uint32_t interest_ = 0;
  bool watched_ = false;
  bool input_ended_ = false;  // no more requests are taken
  bool broken_ = false;       // nothing is sent any more
  bool output_full_ = false;  // the transport takes no more for now
  bool pump_scheduled_ = false;
  bool held_back_ = false;  // a pause may have left requests in the input
  bool ended_ = false;
  bool looking_ = false;       // asks for the size of the export that the client names; further input waits
  bool unidentified_ = false;  // TLS has begun, but the client's identities have not been read yet

  Input input_;  // requests, and small payloads

  // A write whose payload is being received.
  Request writing_;
  Payload payload_;
  std::size_t payload_size_ = 0;  // 0: none
  std::size_t payload_have_ = 0;
  MemoryBudget::Claim claim_;         // claims the payload's memory
  std::uint64_t payload_since_ = 0;   // budget.waited() when the payload got its memory
  std::uint64_t reply_since_;         // budget.waited() when the oldest unsent reply that holds memory began to wait
  std::uint64_t replies_let_go_ = 0;  // Output::let_go() at that time
  // A large write was the last request, so probably another one follows: receive its header alone, and the rest into a
  // pipe.
  bool expect_payload_ = false;
  Failure payload_verdict_ = Failure::kNone;  // if set, the write was refused: its payload is dropped

  std::optional<ChosenExport> export_;  // set in the transmission phase
  std::size_t in_flight_ = 0;
  std::size_t memory_in_flight_ = 0;
  Traffic traffic_;
};

}  // namespace spate::nbd
