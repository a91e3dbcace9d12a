// SPDX-License-Identifier: Apache-2.0
// Fuzzer of whole servers: a meta server and an io server in virtual time. A client and a server that have proved their
// keys send them what the input says. Each request is answered or costs its sender the connection, in time. Each answer
// can be decoded. Afterwards both servers still work.
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "bmi/sim/fabric.h"
#include "log/log.h"
#include "rpc/initiator.h"
#include "rpc/seals.h"
#include "tests/cluster/world.h"
#include "wire/messages.h"

namespace spate::cluster {
namespace {

constexpr std::size_t kMaxRequests = 24;
constexpr std::size_t kReplyRoom = 300 * 1024;
constexpr Duration kLongestAnswer = std::chrono::minutes(5);

/// Reads numbers from the input; zeros after its end.
class Script {
 public:
  explicit Script(ByteView bytes) : bytes_(bytes) {}
  bool ended() const { return bytes_.empty(); }
  std::uint8_t u8() {
    if (bytes_.empty()) return 0;
    const auto v = static_cast<std::uint8_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return v;
  }
  std::uint16_t u16() {
    const unsigned low = u8();
    return static_cast<std::uint16_t>(low | static_cast<unsigned>(u8()) << 8U);
  }
  ByteView raw(std::size_t n) {
    const ByteView part = bytes_.first(std::min(n, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

 private:
  ByteView bytes_;
};

/// A sender of requests, byte by byte, over one connection.
class Asker {
 public:
  Asker(World& world, std::uint32_t node, ServerId server, wire::PeerKind kind)
      : world_(world), server_(server), kind_(kind) {
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::sim::attach(world.fabric(), node));
    network_ = bmi::make_network(std::move(modules), {});
    context_ = network_->open_context();
    peer_ = network_->lookup(urls_of(server.value)).value();
  }

  struct Pending {
    bmi::OpId receive;
    Bytes request;
    Bytes reply = Bytes(kReplyRoom);
    wire::Op op{};
    bmi::Tag tag;
    std::shared_ptr<rpc::Seals> seals;  // of the reply
    bool receive_done = false;
    bool send_done = false;
    Errc status = Errc::kOk;
    bmi::OpId send;
    MonoTime asked_at;
    bool done() const { return receive_done && send_done; }
  };

  void post(wire::Op op, Bytes message) {
    auto pending = std::make_unique<Pending>();
    pending->op = op;
    pending->request = std::move(message);
    pending->asked_at = world_.now();
    tag_ += 0x2000;
    if (seals_ != nullptr && op != wire::Op::kAuthenticate) {
      const auto code = seals_->seal(bmi::Tag(tag_), {pending->request});
      pending->request.insert(pending->request.end(), code.begin(), code.end());
    }
    pending->seals = seals_;
    pending->tag = bmi::Tag(tag_);
    bmi::Message m;
    m.peer = seals_ != nullptr ? handshake_address_ : peer_;  // seals hold only on the connection of the handshake
    m.tag = bmi::Tag(tag_);
    const bmi::Segment room = bmi::Segment::of(MutableByteView(pending->reply));
    m.segments = {&room, 1};
    const auto receive = network_->post_recv(m, context_, nullptr);
    if (!receive) return lost(receive.error());
    const bmi::Segment bytes = bmi::Segment::of(ByteView(pending->request));
    m.segments = {&bytes, 1};
    const auto send = network_->post_send_unexpected(m, context_, nullptr);
    pending->receive = receive->op;
    if (send) {
      pending->send = send->op;
      pending->send_done = send->done;
    } else {
      lost(send.error());
      pending->send_done = true;
      pending->status = send.error().code();
    }
    pending_.push_back(std::move(pending));
  }

  void test() {
    std::array<bmi::Completion, 8> done;
    const std::size_t n = network_->test_context(context_, done);
    for (std::size_t i = 0; i < n; ++i) completed(done[i]);
    for (const auto& p : pending_) {
      if (p->send_done && p->status != Errc::kOk && !p->receive_done) network_->cancel(p->receive);
    }
    std::erase_if(pending_, [this](const auto& p) {
      if (p->done()) check_reply(*p);
      return p->done();
    });
  }

  /// Waits until all requests are answered.
  void settle() {
    while (!pending_.empty()) {
      const MonoTime limit = pending_.front()->asked_at + kLongestAnswer;
      SPATE_CHECK(world_.now() < limit);  // otherwise the server hangs
      world_.turn(limit);
      test();
    }
  }

  /// The body of a successful reply. Nothing if the request was refused or the connection was lost.
  std::optional<Bytes> ask(wire::Op op, Bytes message) {
    answer_.reset();
    post(op, std::move(message));
    settle();
    return answer_;
  }

  wire::RequestHeader header(wire::Op op) const {
    wire::RequestHeader h;
    h.op = op;
    h.fs = world_.settings().map.fs;
    h.client = client_;
    h.session_epoch = epoch_;
    h.deadline_ms = 2000;
    h.reply_room = kReplyRoom;
    return h;
  }

  template <typename Reply, typename Request>
  std::optional<Reply> call(const Request& request) {
    Bytes message;
    wire::encode_body(header(Request::kOp), message);
    wire::encode_body(request, message);
    const auto body = ask(Request::kOp, std::move(message));
    if (!body) return std::nullopt;
    auto reply = wire::decode_body<Reply>(*body);
    SPATE_CHECK(reply.has_value());
    return *reply;
  }

  /// Makes a handshake: hello and authenticate. False: the server refuses it.
  bool handshake(const std::optional<SessionTicket>& ticket) {
    network_->disconnect(peer_);
    seals_.reset();
    client_ = ClientId();
    rpc::Identity identity;
    identity.kind = kind_;
    identity.fs = world_.settings().map.fs;
    identity.key = kind_ == wire::PeerKind::kServer ? world_.settings().server_key : world_.settings().client_key;
    rpc::Initiator initiator(identity, server_, wire::kProtocolVersion, random_);
    if (!ask(wire::Op::kHello, initiator.hello(header(wire::Op::kHello)))) return false;
    if (!initiator.welcome(whole_answer_, network_->peer_info(peer_).reached)) return false;
    wire::AuthenticateRequest request;
    request.kind = kind_;
    request.incarnation = ++incarnation_;
    request.description = "fuzzer";
    request.ticket = ticket;
    if (ticket) request.client = ticket->client;
    Bytes message = initiator.authenticate(header(wire::Op::kAuthenticate), std::move(request));
    seals_ = std::make_shared<rpc::Seals>(*initiator.keys(), rpc::End::kInitiator);
    handshake_address_ = network_->bound(peer_);
    const auto body = ask(wire::Op::kAuthenticate, std::move(message));
    if (!body) return false;
    const auto accepted = wire::decode_body<wire::AuthenticateReply>(*body);
    SPATE_CHECK(accepted.has_value());
    client_ = accepted->client;
    epoch_ = accepted->epoch;
    ticket_ = accepted->ticket;
    return true;
  }

  const SessionTicket& ticket() const { return ticket_; }
  ServerId server() const { return server_; }

 private:
  /// The connection of the handshake was lost. The next request uses a new one, without a handshake.
  void lost(const Error& error) {
    SPATE_CHECK(seals_ != nullptr && error.code() == Errc::kConnectionLost);
    seals_.reset();
  }

  void completed(const bmi::Completion& done) {
    for (const auto& p : pending_) {
      if (p->receive == done.op) {
        p->receive_done = true;
        p->status = done.status;
        p->reply.resize(done.actual_size);
      }
      if (p->send == done.op) {
        p->send_done = true;
        if (done.status != Errc::kOk) p->status = done.status;
      }
    }
  }

  void check_reply(Pending& p) {
    if (p.status != Errc::kOk) {  // the request has cost the connection
      if (p.seals == seals_) seals_.reset();
      return;
    }
    if (p.seals != nullptr) {
      SPATE_CHECK(p.seals->genuine(p.tag, p.reply));
      p.reply.resize(p.reply.size() - rpc::Seals::kSize);
    }
    whole_answer_ = p.reply;
    wire::Reader reader(p.reply);
    wire::ReplyHeader head;
    reader(head);
    SPATE_CHECK(reader.decoder().ok());
    const std::size_t longest = head.status == Errc::kCrossDevice ? 8191 : 512;
    SPATE_CHECK(head.version == wire::kProtocolVersion && head.incarnation && head.context.size() <= longest);
    const ByteView body = ByteView(p.reply).last(reader.decoder().remaining());
    if (head.status != Errc::kOk) {
      SPATE_CHECK(body.empty());
      SPATE_CHECK(head.status != Errc::kCorrupt);  // no bytes in the stores are damaged
      return;
    }
    wire::for_each_operation([&]<typename Request, typename Reply>(wire::Op op) {
      if (op != p.op) return;
      if constexpr (std::is_same_v<Reply, wire::HelloReply>) {
        SPATE_CHECK((wire::decode_body_and<Reply, wire::HelloAnswer>(body).has_value()));
      } else {
        SPATE_CHECK(wire::decode_body<Reply>(body).has_value());
      }
    });
    answer_ = to_bytes(body);
  }

  World& world_;
  const ServerId server_;
  const wire::PeerKind kind_;
  std::unique_ptr<bmi::Network> network_;
  bmi::ContextId context_;
  bmi::Address peer_;
  bmi::Address handshake_address_;  // the connection of the handshake, if seals_ is set
  std::uint64_t tag_ = 0;
  std::uint64_t incarnation_ = 0;
  ClientId client_;
  std::uint32_t epoch_ = 0;
  SessionTicket ticket_;
  SeededRandom random_{5};
  std::shared_ptr<rpc::Seals> seals_;  // of the handshake's connection
  Bytes whole_answer_;                 // the last reply, without its seal
  std::vector<std::unique_ptr<Pending>> pending_;
  std::optional<Bytes> answer_;
};

class Run {
 public:
  Run() : world_(options()) {
    askers_.push_back(std::make_unique<Asker>(world_, 900, kMetaServer, wire::PeerKind::kClient));
    askers_.push_back(std::make_unique<Asker>(world_, 901, ServerId(2), wire::PeerKind::kClient));
    askers_.push_back(std::make_unique<Asker>(world_, 902, kMetaServer, wire::PeerKind::kServer));
    askers_.push_back(std::make_unique<Asker>(world_, 903, ServerId(2), wire::PeerKind::kServer));
    while (!world_.server(kMetaServer)->serving()) world_.run_for(std::chrono::milliseconds(1));
    for (std::size_t i = 0; i < askers_.size(); ++i) SPATE_CHECK(handshake(i));
  }

  void play(Script script) {
    for (std::size_t i = 0; i < kMaxRequests && !script.ended(); ++i) one(script);
  }

  void finish() {
    for (const auto& asker : askers_) asker->settle();
    // A session may have ended or have been fenced. Both servers must still serve a newcomer.
    const wire::PingRequest ping;
    for (std::uint32_t i = 0; i < 2; ++i) {
      Asker fresh(world_, 910 + i, i == 0 ? kMetaServer : ServerId(2), wire::PeerKind::kClient);
      SPATE_CHECK(fresh.call<wire::PingReply>(ping).has_value());
    }
  }

 private:
  static WorldOptions options() {
    WorldOptions o;
    o.io_servers = 1;
    o.disk_bytes = 16U << 20U;
    return o;
  }

  bool handshake(std::size_t i) {
    const bool client_of_io = i == 1;
    return askers_[i]->handshake(client_of_io ? std::optional(askers_[0]->ticket()) : std::nullopt);
  }

  /// Sends one request. Input: sender (2 bits), kind (further bits), operation, length of the body, body.
  void one(Script& script) {
    const std::uint8_t how = script.u8();
    const std::uint8_t op_number = script.u8();
    const std::size_t who = how & 3U;
    const bool whole = (how & 4U) != 0;     // the body has its own header
    const bool capable = (how & 8U) != 0;   // with a genuine capability
    const bool at_once = (how & 16U) != 0;  // the next request does not wait for the reply
    const bool odd = (how & 32U) != 0;      // with odd values in the header
    Asker& asker = *askers_[who];
    const auto op = static_cast<wire::Op>(op_number);
    wire::RequestHeader header = asker.header(op);
    if (op == wire::Op::kHello || op == wire::Op::kAuthenticate) header.client = ClientId();
    if (capable) header.capability = capability(script.u8());
    if (odd) {
      header.priority = static_cast<wire::Priority>(script.u8());
      header.id = {script.u8(), script.u8()};
      header.reply_room = script.u16();
      header.deadline_ms = script.u8();
    }
    Bytes message;
    if (!whole) wire::encode_body(header, message);
    const ByteView body = script.raw(script.u16());
    message.insert(message.end(), body.begin(), body.end());
    asker.post(op, std::move(message));
    if (at_once) return;
    asker.settle();
    if ((how & 64U) != 0) handshake(who);
  }

  Capability capability(std::uint8_t handle) const {
    Capability c;
    c.handle = Handle(handle);
    c.rights = Rights::kReadWrite;
    c.client = askers_[0]->ticket().client;
    c.session_epoch = askers_[0]->ticket().epoch;
    c.expiry = WallTime{askers_[0]->ticket().expiry.ns};
    c.mac = sign(world_.settings().server_key, world_.settings().map.fs, c);
    return c;
  }

  World world_;
  std::vector<std::unique_ptr<Asker>> askers_;
};

}  // namespace
}  // namespace spate::cluster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  static const bool quiet = log::set_levels("off").has_value();
  (void)quiet;
  cluster::Run run;
  run.play(cluster::Script({reinterpret_cast<const std::byte*>(data), size}));
  run.finish();
  return 0;
}
