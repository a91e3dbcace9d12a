// SPDX-License-Identifier: Apache-2.0
// tcp+tls:// addresses: the time before the TLS handshake has ended, and the reports of its failures.
#include <netinet/in.h>

#include <cstring>
#include <fstream>

#include "base/expect_bytes.h"
#include "bmi/tcp/module_fixture.h"
#include "tls/certificates_fixture.h"
#include "tls/openssl_context.h"

namespace spate::bmi::tcp {
namespace {

TcpOptions options_with(std::shared_ptr<tls::Keys> keys) {
  TcpOptions options;
  options.tls = tls::make_context({.files = {}, .keys = std::move(keys)});
  return options;
}

/// Another process.
struct Other {
  explicit Other(const Clock& clock, TcpOptions options) {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(make_tcp_module(clock, std::move(options)));
    module = static_cast<TcpModule*>(modules.back().get());
    network = make_network(std::move(modules), {});
    context = network->open_context();
  }
  Address look_up(const std::string& url) const { return network->lookup(std::array{url}).value(); }
  /// Sends an unexpected message of tag 999 without payload, as introduce() expects it.
  OpId send_hello(Address peer) {
    Message message;
    message.peer = peer;
    message.tag = Tag(999);
    return network->post_send_unexpected(message, context, nullptr)->op;
  }
  void step() {
    std::array<Completion, 16> some;
    const std::size_t n = network->test_context(context, some);
    for (std::size_t i = 0; i < n; ++i) done[some[i].op] = some[i];
  }

  TcpModule* module = nullptr;
  std::unique_ptr<Network> network;
  ContextId context;
  std::map<OpId, Completion> done;
};

class SecureTest : public ModuleTest {
 protected:
  void SetUp() override {
    listen_url_ = "tcp+tls://127.0.0.1:0";
    options_.unauthenticated.deadline_ms = 5000;
    make(options_with(std::make_shared<tls::OneKey>()), options_);
  }
  void pass(std::uint32_t ms) {
    clock_.advance(std::chrono::milliseconds(ms));
    settle();
  }
  testing::AssertionResult drive_both(Other& other, const std::function<bool()>& until) {
    return drive([&] {
      other.step();
      return until();
    });
  }

  NetworkOptions options_;
};

TEST_F(SecureTest, BothEndsReportTheSameBinding) {
  Other client(clock_, options_with(std::make_shared<tls::OneKey>()));
  const Address server = client.look_up(url_);
  client.send_hello(server);
  ASSERT_TRUE(drive_both(client, [&] { return !arrived_.empty(); }));
  const PeerInfo here = network_->peer_info(arrived_.front().peer);
  const PeerInfo there = client.network->peer_info(server);
  EXPECT_EQ(here.binding, there.binding);
  EXPECT_NE(here.binding, Hash{});
  EXPECT_EQ(here.security, "TLS 1.3 TLS_AES_128_GCM_SHA256, by key");
  EXPECT_EQ(here.reached, url_);
  EXPECT_EQ(there.reached, url_);
  EXPECT_EQ(module_->counters().tls_connections, 1U);
}

TEST_F(SecureTest, ABulkConnectionProvesTheLinkKeyInsideOfTls) {
  Other client(clock_, options_with(std::make_shared<tls::OneKey>()));
  const Address server = client.look_up(url_);
  client.send_hello(server);
  ASSERT_TRUE(drive_both(client, [&] { return !arrived_.empty(); }));
  const Address peer = arrived_.front().peer;
  network_->admit(peer);
  Key key{};
  key.fill(std::byte{3});
  network_->set_link_key(peer, key);
  client.network->set_link_key(server, key);
  Bytes sent(3'000'000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 >> 2U);
  Bytes got(sent.size());
  const OpId received = receive(peer, 5, got, MessageClass::kBulk);
  const std::array segments{Segment::of(ByteView(sent))};
  Message out = message(server, 5, segments, MessageClass::kBulk);
  ASSERT_OK(client.network->post_send(out, client.context, nullptr));
  ASSERT_TRUE(drive_both(client, [&] { return done(received); }));
  EXPECT_EQ(done_[received].status, Errc::kOk);
  EXPECT_BYTES(got, sent);
  EXPECT_EQ(module_->counters().tls_connections, 2U);
}

TEST_F(SecureTest, APeerThatStallsInItsHandshakeIsDroppedAtTheDeadline) {
  RawPeer peer = connect();
  ASSERT_TRUE(peer.write(Bytes{std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{2}, std::byte{0}}));
  settle();  // it is accepted
  pass(2999);
  EXPECT_FALSE(peer.ended());
  pass(1);
  EXPECT_TRUE(drive([&] { return peer.ended(); }));
  EXPECT_EQ(module_->counters().refused, 1U);
}

TEST_F(SecureTest, TheDeadlineOfUnauthenticatedPeersIncludesTheHandshake) {
  options_.unauthenticated.deadline_ms = 1000;
  make(options_with(std::make_shared<tls::OneKey>()), options_);
  RawPeer silent = connect();
  RawPeer stalled = connect();
  ASSERT_TRUE(stalled.write(Bytes{std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{2}, std::byte{0}}));
  settle();
  pass(999);
  EXPECT_FALSE(silent.ended());
  EXPECT_FALSE(stalled.ended());
  pass(1);
  EXPECT_TRUE(drive([&] { return silent.ended() && stalled.ended(); }));
}

/// The time runs from the accepted connection on, not from the end of the TLS handshake.
TEST_F(SecureTest, APeerThatProvesNothingAfterItsHandshakeIsDroppedAtTheDeadline) {
  Other client(clock_, options_with(std::make_shared<tls::OneKey>()));
  const Address server = client.look_up(url_);
  client.send_hello(server);
  ASSERT_TRUE(drive_both(client, [&] { return !arrived_.empty(); }));
  pass(4999);
  client.step();
  EXPECT_TRUE(client.network->peer_info(server).connected) << "the key is still good";
  pass(1);
  EXPECT_TRUE(drive_both(client, [&] { return !client.network->peer_info(server).connected; }));
  EXPECT_EQ(module_->counters().unauthenticated_dropped, 1U);
}

TEST_F(SecureTest, APlainConnectionIsRefusedAndGetsNoWelcome) {
  RawPeer peer = connect();
  peer.hello(hello());
  Bytes got;
  ASSERT_TRUE(drive([&] {
    const Bytes more = peer.read();
    got.insert(got.end(), more.begin(), more.end());
    return peer.ended();
  }));
  EXPECT_BYTES(got, kTlsAlert);
  EXPECT_EQ(module_->counters().tls_failures, 1U);
  EXPECT_EQ(module_->counters().refused, 1U);
}

TEST_F(SecureTest, TheClientReportsAWrongKey) {
  Other client(clock_, options_with(std::make_shared<tls::OneKey>("other")));
  const Address server = client.look_up(url_);
  const OpId op = client.send_hello(server);
  ASSERT_TRUE(drive_both(client, [&] { return client.done.contains(op); }));
  EXPECT_EQ(client.done[op].status, Errc::kUnreachable);
  const PeerInfo info = client.network->peer_info(server);
  ASSERT_EQ(info.failed.size(), 1U);
  EXPECT_TRUE(info.failed[0].reason.starts_with("TLS: the server does not accept this key")) << info.failed[0].reason;
}

/// The client's handshake is done before the server has looked at its certificate.
TEST_F(SecureTest, TheClientReportsThatItsCertificateIsRefused) {
  tls::Certificates certificates;
  TcpOptions with_files;
  with_files.tls = tls::make_context({.files = certificates.issue("server"), .keys = nullptr});
  make(with_files, options_);
  with_files.tls =
      tls::make_context({.files = certificates.issue("old", {.from_s = -90, .to_s = -60}), .keys = nullptr});
  Other client(clock_, with_files);
  const Address server = client.look_up(url_);
  const OpId op = client.send_hello(server);
  ASSERT_TRUE(drive_both(client, [&] { return client.done.contains(op); }));
  EXPECT_EQ(client.done[op].status, Errc::kUnreachable);
  const PeerInfo info = client.network->peer_info(server);
  ASSERT_EQ(info.failed.size(), 1U);
  EXPECT_EQ(info.failed[0].reason,
            "TLS: the server does not accept this side's certificate: it has expired, or the server's revocation list "
            "has expired");
  EXPECT_EQ(module_->counters().tls_failures, 1U);
}

TEST_F(SecureTest, ATlsClientSendsNothingInClear) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  Other client(clock_, options_with(std::make_shared<tls::OneKey>()));
  const Address server = client.look_up("tcp+tls://127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  const OpId op = client.send_hello(server);
  client.step();
  RawPeer plain(UniqueFd(::accept(listener.get(), nullptr, nullptr)));
  Bytes got;
  ASSERT_TRUE(drive_both(client, [&] {
    const Bytes more = plain.read();
    got.insert(got.end(), more.begin(), more.end());
    return got.size() > 100;
  }));
  EXPECT_EQ(got[0], std::byte{0x16});  // a record of the TLS handshake
  EXPECT_EQ(std::string(as_text(got)).find("SPATEtcp"), std::string::npos);
  ASSERT_TRUE(plain.write(to_bytes(encode(Welcome()))));
  ASSERT_TRUE(drive_both(client, [&] { return client.done.contains(op); }));
  EXPECT_EQ(client.done[op].status, Errc::kUnreachable);
  EXPECT_EQ(client.network->peer_info(server).failed.at(0).reason,
            "TLS: the server does not speak TLS: its spate.toml may have tcp:// for this tcp+tls:// address");
}

TEST_F(SecureTest, APlainClientLearnsThatTheServerSpeaksTls) {
  Other client(clock_, TcpOptions());
  const Address server = client.look_up("tcp" + url_.substr(url_.find("://")));
  const OpId op = client.send_hello(server);
  ASSERT_TRUE(drive_both(client, [&] { return client.done.contains(op); }));
  EXPECT_EQ(client.done[op].status, Errc::kUnreachable);
  EXPECT_EQ(client.network->peer_info(server).failed.at(0).reason,
            "the server speaks TLS: its spate.toml may have tcp+tls:// for this tcp:// address");
}

TEST_F(SecureTest, AClientOfTlsLearnsThatTheServerIsPlain) {
  listen_url_ = "tcp://127.0.0.1:0";
  make(TcpOptions(), options_);
  Other client(clock_, options_with(std::make_shared<tls::OneKey>()));
  const Address server = client.look_up("tcp+tls" + url_.substr(url_.find("://")));
  const OpId op = client.send_hello(server);
  ASSERT_TRUE(drive_both(client, [&] { return client.done.contains(op); }));
  EXPECT_EQ(client.done[op].status, Errc::kUnreachable);
  EXPECT_EQ(client.network->peer_info(server).failed.at(0).reason,
            "TLS: the server does not speak TLS: its spate.toml may have tcp:// for this tcp+tls:// address");
  EXPECT_EQ(module_->counters().refused, 1U);
  EXPECT_EQ(module_->counters().protocol_errors, 0U);
}

TEST_F(SecureTest, WithoutTlsTheAddressIsRefused) {
  Other client(clock_, TcpOptions());
  EXPECT_ERRC(client.network->lookup(std::array{url_}), Errc::kNoSuchModule);
  EXPECT_ERRC(client.network->listen("tcp+tls://127.0.0.1:0", client.context), Errc::kNoSuchModule);
}

}  // namespace
}  // namespace spate::bmi::tcp
