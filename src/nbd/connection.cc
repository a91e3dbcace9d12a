// SPDX-License-Identifier: Apache-2.0
#include "nbd/connection.h"

#include <sys/epoll.h>

#include <array>

#include "log/log.h"

namespace spate::nbd {
namespace {

/// Holds an option of the negotiation, and the requests that arrive together. A payload that fits is used where it is.
constexpr std::size_t kInputBytes = 128UL * 1024;
static_assert(kInputBytes >= 2 * Negotiation::kMaxOptionBytes);

// While a client has more requests in flight, the connection stops reading.
constexpr std::size_t kMaxInFlight = 256;
constexpr std::size_t kMaxWaitingBytes = 8UL << 20U;
constexpr std::size_t kMaxWaitingSegments = 1024;
constexpr std::size_t kMaxMemoryInFlight = 64UL << 20U;
// Memory of all connections is scarce if their requests in flight hold this much, or if kMaxBuffersOfAll reply buffers
// are in use (the budget counts some of them). Then a connection with requests in flight or unsent replies stops
// reading.
constexpr std::size_t kMaxMemoryOfAll = 128UL << 20U;
constexpr std::size_t kMaxBuffersOfAll = (MemoryBudget::kBytes + kMaxMemoryOfAll) / ReplyBuffers::kBytes;

// Bytes sent before other connections have their turn.
constexpr std::size_t kFlushedATurn = 8UL << 20U;

}  // namespace

Connection::Connection(ConnectionWorld& world, UniqueFd socket, ClientAddress peer)
    : world_(world),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      transport_(plain_transport(socket_.get())),
      catalogue_(world.host.catalogue(peer_)),
      negotiation_(*catalogue_, world.policy),
      negotiation_timer_(world.executor),
      gate_(world.executor),
      output_(world.buffers),
      input_(kInputBytes),
      claim_(
          world.budget, [](void* self) { static_cast<Connection*>(self)->schedule_pump(); }, this),
      reply_since_(world.budget.waited()) {}

Connection::~Connection() {
  if (watched_) world_.sockets.remove(socket_.get());
  input_ended_ = true;
  drop_dead();
}

void Connection::start() {
  if (!world_.sockets.add(socket_.get(), EPOLLIN, *this)) return abandon("the kernel watches no more sockets");
  watched_ = true;
  interest_ = EPOLLIN;
  negotiation_timer_.arm(
      world_.executor.now() + world_.negotiation_time,
      [](void* self) { static_cast<Connection*>(self)->abandon("no export was chosen in time"); }, this);
  Bytes init;
  Negotiation::begin(init);
  output_.add(init);
  pump();
}

void Connection::finish() {
  input_ended_ = true;
  schedule_pump();
}

void Connection::abandon(std::string_view why) {
  if (!broken_) SPATE_LOG("nbd", debug, "connection dropped peer={} why={}", peer_.text, why);
  broken_ = true;
  input_ended_ = true;
  schedule_pump();
}

void Connection::on_ready(std::uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0 && (interest_ & EPOLLIN) == 0) {
    // Both directions are closed, or the connection has failed. Note it here, since nobody else would while nothing is
    // read.
    broken_ = true;
    input_ended_ = true;
  }
  if ((events & EPOLLOUT) != 0 || transport_->write_wants() == Wants::kReadable) output_full_ = false;
  pump();
}

void Connection::schedule_pump() {
  if (pump_scheduled_ || ended_) return;
  pump_scheduled_ = true;
  world_.executor.at_turn_end([this] {
    pump_scheduled_ = false;
    pump();
  });
}

/// Receives, answers the requests that need no wait, and sends all these replies together.
void Connection::pump() {
  if (ended_) return;
  take_input();  // input that a pause has left
  bool more = !input_ended_ && !paused() && receive();
  if (more) take_input();
  flush();
  while (more && transport_->has_pending() && !input_ended_ && !paused()) {
    more = receive();
    take_input();
    flush();
  }
  drop_dead();
  if (held_back_ && !paused()) schedule_pump();
  update_interest();
  end_if_idle();
}

/// Nobody waits for an answer any more: frees memory at once, since requests in flight may take long.
void Connection::drop_dead() {
  if (input_ended_) {
    payload_size_ = 0;  // the rest will not come
    claim_.cancel();
    give_back(std::exchange(payload_, Payload()), false);
  }
  if (broken_) output_.clear();
}

void Connection::drop_if_stalled() {
  const std::uint64_t now = world_.budget.waited();
  if (output_.held() == 0 || output_.let_go() != replies_let_go_) {
    reply_since_ = now;
    replies_let_go_ = output_.let_go();
  }
  const bool writes_late = payload_.hold.bytes() > 0 && now - payload_since_ > MemoryBudget::kStallTimeout;
  const bool reads_late = now - reply_since_ > MemoryBudget::kStallTimeout;
  if (broken_ || !(writes_late || reads_late)) return;
  SPATE_LOG("nbd", warn, "client dropped, others wait for memory peer={} why=\"{}\" bytes={} dropped={}", peer_.text,
            writes_late ? "does not send the rest of a write" : "does not take a reply",
            payload_.hold.bytes() + output_.held(), ++world_.budget.dropped);
  abandon("others wait for its memory");
}

bool Connection::paused() const {
  if (claim_.waits() || looking_) return true;
  // A payload that has its memory is received whatever else is in flight, since its time limit runs.
  if (payload_size_ > 0) return false;
  const bool scarce = world_.memory_in_flight >= kMaxMemoryOfAll || world_.buffers.in_use() >= kMaxBuffersOfAll;
  if (scarce && (in_flight_ > 0 || !output_.empty())) return true;
  return in_flight_ >= kMaxInFlight || memory_in_flight_ >= kMaxMemoryInFlight ||
         output_.memory() >= kMaxWaitingBytes || output_.segments() >= kMaxWaitingSegments;
}

/// False: nothing came, or nothing more will come.
bool Connection::receive() {
  input_.tidy();
  std::array<iovec, 2> pieces;
  std::size_t count = 0;
  if (payload_size_ > payload_have_ && payload_.pipe) return receive_to_pipe();
  if (payload_size_ > payload_have_)
    pieces[count++] = {payload_.memory.data() + payload_have_, payload_size_ - payload_have_};
  const std::size_t held = input_.view().size();
  const bool header_only = expect_payload_ && count == 0 && held < kRequestBytes;
  const MutableByteView room = input_.room();
  const std::size_t wanted = header_only ? kRequestBytes - held : room.size();
  if (!room.empty() && !(expect_payload_ && count > 0)) pieces[count++] = {room.data(), std::min(wanted, room.size())};
  if (count == 0) return false;
  const auto n = transport_->read(std::span(pieces).first(count));
  if (n.code() == Errc::kTryAgain) return false;
  if (!n || *n == 0) {
    if (!n) broken_ = true;
    input_ended_ = true;
    return false;
  }
  count_input(*n);
  return true;
}

bool Connection::receive_to_pipe() {
  const auto n = transport_->read_to_pipe(payload_.pipe.in.get(), payload_size_ - payload_have_);
  if (n.code() == Errc::kTryAgain) return transport_->has_input() && leave_pipe();
  if (!n || *n == 0) {
    if (!n) broken_ = true;
    input_ended_ = true;
    return false;
  }
  payload_have_ += *n;
  return true;
}

/// The pipe is full of small pieces: moves its contents to memory and continues there.
bool Connection::leave_pipe() {
  Payload in_memory;
  if (!payload_memory(payload_size_, in_memory)) return false;
  for (std::size_t at = 0; at < payload_have_;) {
    const ssize_t n = ::read(payload_.pipe.out.get(), in_memory.memory.data() + at, payload_have_ - at);
    SPATE_CHECK(n > 0);  // the pipe holds them
    at += static_cast<std::size_t>(n);
  }
  world_.pipes.give_back(std::move(payload_.pipe));
  payload_ = std::move(in_memory);
  expect_payload_ = false;
  return true;
}

void Connection::count_input(std::size_t n) {
  if (payload_size_ > payload_have_) {
    const std::size_t to_payload = std::min(n, payload_size_ - payload_have_);
    payload_have_ += to_payload;
    n -= to_payload;
  }
  input_.add(n);
}

void Connection::take_input() {
  held_back_ = paused();
  if (phase_ == Phase::kNegotiation && !held_back_) take_negotiation();
  if (phase_ != Phase::kTransmission) return;
  export_->forget_size();
  while (!broken_ && !input_ended_ && !paused() && take_request()) {
    // The client can use these replies while the next requests are handled.
    if (output_.memory() >= ReplyBuffers::kBytes && !output_full_) flush();
  }
  held_back_ = paused();
}

void Connection::take_negotiation() {
  if (input_ended_ || broken_) return;
  Bytes out;
  const ByteView in = input_.view();
  if (unidentified_ && !in.empty()) {  // the first bytes over TLS: its handshake is over
    unidentified_ = false;
    catalogue_->identified(transport_->identities());
  }
  input_.take(negotiation_.consume(in, out));
  output_.add(out);
  switch (negotiation_.state()) {
    case Negotiation::State::kTalking:
      // consume() may have ended early because `out` is full.
      if (out.size() >= Negotiation::kMaxOptionBytes) schedule_pump();
      break;
    case Negotiation::State::kStartTls: return begin_tls();
    case Negotiation::State::kLook: return begin_look();
    case Negotiation::State::kTransmission: return begin_transmission();
    case Negotiation::State::kEnd: input_ended_ = true; break;
  }
}

void Connection::begin_tls() {
  // Bytes that were sent in the clear after STARTTLS must not be mistaken for bytes that TLS protects.
  if (!input_.view().empty()) return abandon("something was sent behind STARTTLS");
  flush();
  if (!output_.empty()) return abandon("STARTTLS after answers that were not read");
  auto tls = world_.host.start_tls(socket_.get());
  if (!tls) return abandon(tls.error().message());
  transport_ = *std::move(tls);
  unidentified_ = true;
  negotiation_.tls_started();
}

void Connection::begin_look() {
  looking_ = true;
  ++in_flight_;
  SPATE_CHECK(job::spawn(gate_, look(world_.host.device(negotiation_.wanted()))));
}

job::Task<void> Connection::look(Device& device) {
  co_await device.look();
  looking_ = false;
  --in_flight_;
  negotiation_.looked();
  schedule_pump();
}

void Connection::begin_transmission() {
  negotiation_timer_.disarm();
  phase_ = Phase::kTransmission;
  const ExportInfo& chosen = negotiation_.chosen();
  Device& device = world_.host.device(chosen.name);
  const RequestRules rules{chosen.size, device.read_only(), negotiation_.structured(), negotiation_.block_status()};
  export_.emplace(device, rules);
  SPATE_LOG("nbd", debug, "export in use peer={} export=\"{}\" structured={}", peer_.text, chosen.name,
            rules.structured);
}

void Connection::flush() {
  if (broken_ || output_full_ || output_.empty()) return;
  const auto flushed = output_.flush(*transport_, kFlushedATurn);
  if (flushed && !output_.empty()) schedule_pump();
  if (flushed) return;
  if (flushed.code() == Errc::kTryAgain) {
    output_full_ = true;
  } else {
    broken_ = true;
    input_ended_ = true;
  }
}

void Connection::update_interest() {
  std::uint32_t wanted = 0;
  if (!broken_ && !input_ended_ && !paused())
    wanted |= transport_->read_wants() == Wants::kWritable ? EPOLLOUT : EPOLLIN;
  if (!broken_ && output_full_) wanted |= transport_->write_wants() == Wants::kReadable ? EPOLLIN : EPOLLOUT;
  if (broken_ && watched_) {  // epoll would report a closed connection for ever
    world_.sockets.remove(socket_.get());
    watched_ = false;
    return;
  }
  if (!watched_ || wanted == interest_) return;
  world_.sockets.change(socket_.get(), wanted);
  interest_ = wanted;
}

void Connection::end_if_idle() {
  if (ended_ || !input_ended_ || in_flight_ > 0 || (!broken_ && !output_.empty())) return;
  ended_ = true;
  negotiation_timer_.disarm();
  if (!broken_) transport_->end();
  if (phase_ == Phase::kTransmission) {
    SPATE_LOG("nbd", debug, "connection ended peer={} requests={} read_bytes={} written_bytes={}", peer_.text,
              traffic_.requests, traffic_.read_bytes, traffic_.written_bytes);
  }
  world_.host.ended(*this);
}

}  // namespace spate::nbd
