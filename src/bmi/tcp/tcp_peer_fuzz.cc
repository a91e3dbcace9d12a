// SPDX-License-Identifier: Apache-2.0
// Fuzzer of the whole module. Its input is a script of what unauthenticated peers and peers do on their sockets and
// what this side posts in the meantime. Every posted operation must end, no more may be kept than was granted, and a
// correct peer must be served afterwards.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bmi/tcp/endpoint.h"
#include "bmi/tcp/frame.h"
#include "bmi/tcp/hello.h"
#include "bmi/tcp/tcp_module.h"
#include "log/log.h"

namespace spate::bmi::tcp {
namespace {

constexpr std::size_t kMaxSteps = 100;
constexpr std::size_t kMaxSockets = 6;
constexpr std::uint64_t kWindow = 16384;
constexpr std::uint64_t kMaxUnexpected = 4096;
constexpr std::uint64_t kMaxPayload = 9000;

/// Reads the input piece by piece; yields zeros after its end.
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
  std::uint64_t u16() {
    const std::uint64_t low = u8();
    return low | static_cast<std::uint64_t>(u8()) << 8U;
  }
  ByteView raw(std::size_t n) {
    const ByteView part = bytes_.first(std::min(n, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

 private:
  ByteView bytes_;
};

/// The other side's end of a connection. Closing it resets the connection, so that thousands of connections a second
/// leave no port in use.
struct Remote {
  explicit Remote(UniqueFd fd) : socket(std::move(fd)) {
    const linger reset{1, 0};
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  void write(ByteView bytes) {
    // Bytes that the module does not take at once are lost, which a real peer may cause, too.
    if (!bytes.empty()) (void)!::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  std::size_t read() {
    std::array<std::byte, 4096> scratch;
    std::size_t all = 0;
    for (ssize_t n = 1; n > 0; all += n > 0 ? static_cast<std::size_t>(n) : 0) {
      n = ::recv(socket.get(), scratch.data(), scratch.size(), MSG_DONTWAIT);
      if (n >= static_cast<ssize_t>(kWelcomeSize) && !welcome) welcome = decode_welcome(scratch.data());
    }
    return all;
  }
  UniqueFd socket;
  std::optional<Welcome> welcome;
};

class World {
 public:
  World() {
    NetworkOptions options;
    options.max_unexpected_bytes = kMaxUnexpected;
    options.buffered_per_peer_bytes = kWindow;
    options.eager_limit_bytes = 2048;
    TcpOptions tcp;
    tcp.max_announced = 8;
    tcp.gone_peers_kept = 2;
    tcp.bulk_connections = 2;
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(make_tcp_module(clock_, tcp));
    network_ = make_network(std::move(modules), options);
    context_ = network_->open_context();
    const auto url = network_->listen("tcp://127.0.0.1:0", context_);
    SPATE_CHECK(url.has_value());
    url_ = *url;
    const Endpoint any = parse_url("tcp://127.0.0.1:0").value();
    listener_ = listen_on(any).value();
    const std::string other = advertised_url(any, listener_.get());
    known_.push_back(network_->lookup(std::array{other}).value());
  }

  void play(Script script) {
    for (std::size_t i = 0; i < kMaxSteps && !script.ended(); ++i) one(script);
  }

  /// The steps at the end of every script.
  void finish() {
    remotes_.clear();
    for (const Address peer : known_) network_->disconnect(peer);
    for (const auto& [op, memory] : pending_) network_->cancel(op);
    settle([this] { return pending_.empty(); });
    taking_ = true;
    for (int i = 0; i < 4; ++i) step();
    Remote& proper = connect();
    proper.write(encode(hello(200, 0, 0)));
    settle([&] { return proper.welcome.has_value(); });
    SPATE_CHECK(proper.welcome->status == Errc::kOk);
  }

 private:
  using Memory = std::unique_ptr<Bytes>;

  Remote& connect() {
    const SocketAddress address = parse_url(url_)->addresses.at(0);
    UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // libFuzzer's alarm may interrupt the call; another call continues to wait.
    int failed = EINTR;
    while (failed == EINTR) failed = ::connect(fd.get(), address.get(), address.size) == 0 ? 0 : errno;
    SPATE_CHECK(failed == 0);
    return remotes_.emplace_back(std::move(fd));
  }
  Remote* remote(std::uint8_t choice) { return remotes_.empty() ? nullptr : &remotes_[choice % remotes_.size()]; }
  Address peer(std::uint8_t choice) const { return known_[choice % known_.size()]; }

  Hello hello(std::uint8_t link, std::uint8_t channel, std::uint64_t token) const {
    Hello h;
    h.link.fill(static_cast<std::byte>(link));
    h.channel = channel;
    h.bulk_connections = std::max<std::uint8_t>(1, channel);
    h.token = token;
    h.limits = {kWindow, kMaxUnexpected, 8};
    return h;
  }

  void one(Script& script) {
    switch (script.u8() % 14) {
      case 0:
        if (remotes_.size() < kMaxSockets) connect();
        return;
      case 1: return say_hello(script);
      case 2:
      case 3: return say_frame(script);
      case 4:
        if (Remote* r = remote(script.u8())) r->write(script.raw(script.u8()));
        return;
      case 5: return step();
      case 6: return receive(script);
      case 7: return send(script, false);
      case 8: return send(script, true);
      case 9: {
        const std::uint8_t choice = script.u8();
        if (!ops_.empty()) network_->cancel(ops_[choice % ops_.size()]);
        return;
      }
      case 10:
        if (!remotes_.empty()) remotes_.erase(remotes_.begin() + script.u8() % static_cast<int>(remotes_.size()));
        return;
      case 11: return clock_.advance(std::chrono::milliseconds(script.u16()));
      case 12: {
        const std::uint8_t choice = script.u8();
        taking_ = choice % 2 == 0;
        if (choice >= 128) network_->set_link_key(network_->bound(peer(choice)), key_);
        return;
      }
      case 13: return accept_and_welcome(script);
    }
  }

  void say_hello(Script& script) {
    Remote* const r = remote(script.u8());
    const std::uint8_t link = script.u8() % 3;
    const std::uint8_t channel = script.u8() % 4;
    const std::uint8_t how = script.u8();
    if (r == nullptr) return;
    std::uint64_t token = how % 4 == 3 ? 1 : 0;
    if (channel > 0 && how % 4 == 0) token = tokens_[link];
    Hello h = hello(link, channel, token);
    if (how / 4 == 1) h.limits = {0, 0, 0};
    if (how / 4 == 2) h.versions.min = h.versions.max = 9;
    if (how / 4 == 3) h.versions.min = h.versions.max = kProvingVersion;
    r->write(encode(h));
    step();
    r->read();
    if (channel == 0 && r->welcome) tokens_[link] = r->welcome->token;
    if (channel > 0 && how / 4 == 3 && r->welcome)
      r->write(link_proof(key_, static_cast<Side>(how >> 7U), encode(h), encode(*r->welcome)));
  }

  void say_frame(Script& script) {
    Remote* const r = remote(script.u8());
    FrameHeader header;
    header.type = type_of_number(static_cast<std::uint8_t>(1 + script.u8() % 10)).value();
    const std::uint8_t bits = script.u8();
    header.message_class = static_cast<MessageClass>(bits & 1U);
    header.flags = bits >> 1U & 1U;
    header.credit = (bits & 4U) != 0 ? 0xFFFFFFFF : (bits & 8U) != 0 ? 1000 : 0;
    header.tag = (bits & 16U) != 0 ? recent_op(script) : script.u8() % 4;
    header.length = (bits & 32U) != 0 ? std::uint64_t{1} << (script.u8() % 63U) : script.u16() % kMaxPayload;
    header.id = (bits & 64U) != 0 ? recent_op(script) : script.u8();
    if (r == nullptr) return;
    r->write(encode(header));
    const std::uint64_t payload = std::min(header.payload(), kMaxPayload);
    // The payload is cut short, so the following bytes are read as the rest of it.
    r->write(ByteView(payload_).first((bits & 128U) != 0 ? payload / 2 : payload));
  }
  std::uint64_t recent_op(Script& script) const {
    const std::uint8_t choice = script.u8();
    return ops_.empty() ? choice : ops_[choice % ops_.size()].value;
  }

  Message message(Script& script, Bytes& memory) {
    const std::uint8_t bits = script.u8();
    constexpr std::array<std::size_t, 4> kSizes{0, 10, 3000, kMaxPayload};
    memory.resize(kSizes[bits & 3U]);
    Message m;
    m.peer = peer(script.u8());
    m.tag = Tag(bits >> 2U & 3U);
    m.message_class = static_cast<MessageClass>(bits >> 4U & 1U);
    m.receiver_ready = (bits & 32U) != 0;
    return m;
  }
  void posted(const Result<Posted>& result, Memory memory) {
    if (!result) return;
    ops_.push_back(result->op);
    if (ops_.size() > 8) ops_.pop_front();
    if (!result->done) pending_.emplace(result->op, std::move(memory));
  }
  void receive(Script& script) {
    auto memory = std::make_unique<Bytes>();
    Message m = message(script, *memory);
    const Segment segment = Segment::of(MutableByteView(*memory));
    m.segments = {&segment, 1};
    posted(network_->post_recv(m, context_, nullptr), std::move(memory));
  }
  void send(Script& script, bool unexpected) {
    auto memory = std::make_unique<Bytes>();
    Message m = message(script, *memory);
    const Segment segment = Segment::of(ByteView(*memory));
    m.segments = {&segment, 1};
    posted(
        unexpected ? network_->post_send_unexpected(m, context_, nullptr) : network_->post_send(m, context_, nullptr),
        std::move(memory));
  }

  /// This side connected to the script's listener, and the script answers.
  void accept_and_welcome(Script& script) {
    const std::uint8_t how = script.u8();
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) return;
    Remote r(std::move(fd));
    Welcome welcome;
    welcome.token = 7;
    welcome.limits = {kWindow, kMaxUnexpected, how % 2 == 0 ? 8U : 0U};
    if (how / 2 == 1) welcome.status = Errc::kVersionMismatch;
    if (how / 2 == 2) welcome.status = Errc::kConnectionLost;
    r.write(encode(welcome));
    if (remotes_.size() < kMaxSockets) remotes_.push_back(std::move(r));
  }

  void step() {
    for (Remote& r : remotes_) r.read();
    std::array<Completion, 16> done;
    const std::size_t n = network_->test_context(context_, done);
    for (std::size_t i = 0; i < n; ++i) SPATE_CHECK(pending_.erase(done[i].op) == 1);
    if (!taking_) return;
    std::array<UnexpectedMessage, 16> messages;
    const std::size_t m = network_->test_unexpected(context_, messages);
    std::map<Address, std::uint64_t> kept;
    for (std::size_t i = 0; i < m; ++i) {
      SPATE_CHECK(messages[i].payload.size() <= kMaxUnexpected);
      kept[messages[i].peer] += cost_of(messages[i].payload.size());
      if (known_.size() < 4 && std::ranges::find(known_, messages[i].peer) == known_.end())
        known_.push_back(messages[i].peer);
    }
    for (const auto& [from, bytes] : kept) SPATE_CHECK(bytes <= kWindow);
  }
  /// Drives this side until `until` holds, which takes no time on the loopback as a rule.
  template <typename Until>
  void settle(Until until) {
    constexpr int kAtOnce = 8;
    constexpr int kMostTurns = 5000;
    for (int i = 0; !until(); ++i) {
      SPATE_CHECK(i < kMostTurns);  // it hangs
      step();
      pollfd fd{network_->wait_descriptor(context_), POLLIN, 0};
      if (i > kAtOnce && network_->prepare_to_wait(context_)) ::poll(&fd, 1, 1);
    }
  }

  ManualClock clock_;
  std::unique_ptr<Network> network_;
  ContextId context_;
  std::string url_;
  UniqueFd listener_;  // of the server that the script plays
  std::deque<Remote> remotes_;
  std::vector<Address> known_;
  std::array<std::uint64_t, 3> tokens_{};
  std::map<OpId, Memory> pending_;
  std::deque<OpId> ops_;  // the last posted ones, ended or not
  Bytes payload_ = Bytes(kMaxPayload);
  const Key key_{};
  bool taking_ = true;
};

}  // namespace
}  // namespace spate::bmi::tcp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate::bmi::tcp;
  static const bool quiet = spate::log::set_levels("off").has_value();
  (void)quiet;
  World world;
  world.play(Script({reinterpret_cast<const std::byte*>(data), size}));
  world.finish();
  return 0;
}
