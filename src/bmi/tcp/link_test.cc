// SPDX-License-Identifier: Apache-2.0
// Bulk connections of peers that have a link key. Only a process that knows the key gets one.
#include <algorithm>

#include "base/expect_bytes.h"
#include "bmi/tcp/module_fixture.h"

namespace spate::bmi::tcp {
namespace {

Key key_of(std::uint8_t n) {
  Key key{};
  key.fill(static_cast<std::byte>(n));
  return key;
}

class LinkTest : public ModuleTest {
 protected:
  /// Makes a peer that has connected and whose link has key 1.
  void SetUp() override {
    ModuleTest::SetUp();
    hello_ = hello();
    token_ = handshake(control_.emplace(connect()), hello_).token;
    address_ = introduce(*control_);
    network_->set_link_key(network_->bound(address_), key_of(1));
  }
  Hello bulk_hello() const {
    Hello h = hello_;
    h.versions.min = h.versions.max = kProvingVersion;
    h.channel = 1;
    h.token = 0x1234;
    h.limits = {};
    return h;
  }
  /// Sends a hello and takes the Welcome and the proof, which must be valid.
  WelcomeBytes handshake_bulk(RawPeer& peer, const Hello& h) {
    peer.hello(h);
    Bytes bytes;
    EXPECT_TRUE(drive([&] {
      const Bytes more = peer.read();
      bytes.insert(bytes.end(), more.begin(), more.end());
      return bytes.size() >= kWelcomeSize + sizeof(LinkProof);
    }));
    bytes.resize(kWelcomeSize + sizeof(LinkProof));
    WelcomeBytes welcome{};
    std::copy_n(bytes.begin(), kWelcomeSize, welcome.begin());
    const LinkProof wanted = link_proof(key_of(1), Side::kAcceptor, encode(h), welcome);
    EXPECT_BYTES(ByteView(bytes).subspan(kWelcomeSize), wanted);
    return welcome;
  }
  /// Whether a bulk message of this side arrives at `bulk`.
  testing::AssertionResult carries(RawPeer& bulk) {
    const Bytes data(100, std::byte{7});
    const OpId op = send(address_, 5, data, MessageClass::kBulk, true);
    Bytes got;
    const testing::AssertionResult came = drive([&] {
      const Bytes more = bulk.read();
      got.insert(got.end(), more.begin(), more.end());
      return got.size() >= kHeaderSize + data.size() || bulk.ended();
    });
    if (!came) return came;
    const Errc sent = finish(op);
    if (sent == Errc::kOk && got.size() == kHeaderSize + data.size()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the send ended with " << name(sent) << ", and " << got.size()
                                       << " bytes came";
  }

  std::optional<RawPeer> control_;
  Hello hello_;
  std::uint64_t token_ = 0;
  Address address_;
};

TEST_F(LinkTest, APeerThatProvesTheKeyGetsABulkConnection) {
  RawPeer bulk = connect();
  const Hello h = bulk_hello();
  const WelcomeBytes welcome = handshake_bulk(bulk, h);
  EXPECT_TRUE(bulk.write(link_proof(key_of(1), Side::kConnector, encode(h), welcome)));
  EXPECT_TRUE(carries(bulk));
}

TEST_F(LinkTest, TheTokenAloneIsNotEnough) {
  Hello h = hello_;
  h.channel = 1;
  h.token = token_;
  RawPeer thief = connect();
  EXPECT_EQ(handshake(thief, h).status, Errc::kConnectionLost);
  EXPECT_FALSE(control_->ended());
}

TEST_F(LinkTest, AProofOfAnotherKeyOrOfTheOtherSideIsRefused) {
  const Hello h = bulk_hello();
  for (const auto& [key, side] : {std::pair(key_of(2), Side::kConnector), std::pair(key_of(1), Side::kAcceptor),
                                  std::pair(Key{}, Side::kConnector)}) {
    RawPeer thief = connect();
    const WelcomeBytes welcome = handshake_bulk(thief, h);
    EXPECT_TRUE(thief.write(link_proof(key, side, encode(h), welcome)));
    EXPECT_TRUE(drive([&] { return thief.ended(); }));
  }
  EXPECT_FALSE(control_->ended()) << "it costs only whoever tried";
}

TEST_F(LinkTest, AProofThatWasOverheardIsOfNoUse) {
  const Hello h = bulk_hello();
  RawPeer bulk = connect();
  const LinkProof heard = link_proof(key_of(1), Side::kConnector, encode(h), handshake_bulk(bulk, h));
  RawPeer thief = connect();
  handshake_bulk(thief, h);
  EXPECT_TRUE(thief.write(heard));
  EXPECT_TRUE(drive([&] { return thief.ended(); }));
  EXPECT_TRUE(bulk.write(heard));
  EXPECT_TRUE(carries(bulk));
}

TEST_F(LinkTest, EachByteOfAProofCounts) {
  const Hello h = bulk_hello();
  for (std::size_t i = 0; i < sizeof(LinkProof); ++i) {
    RawPeer thief = connect();
    LinkProof proof = link_proof(key_of(1), Side::kConnector, encode(h), handshake_bulk(thief, h));
    proof[i] ^= std::byte{1};
    EXPECT_TRUE(thief.write(proof));
    EXPECT_TRUE(drive([&] { return thief.ended(); })) << i;
  }
}

TEST_F(LinkTest, AProofForAnEarlierConnectionComesTooLate) {
  const Hello h = bulk_hello();
  RawPeer bulk = connect();
  const LinkProof proof = link_proof(key_of(1), Side::kConnector, encode(h), handshake_bulk(bulk, h));
  handshake(control_.emplace(connect()), hello_);
  introduce(*control_);
  network_->set_link_key(network_->bound(address_), key_of(1));
  EXPECT_TRUE(bulk.write(proof));
  EXPECT_TRUE(drive([&] { return bulk.ended(); }));
}

TEST_F(LinkTest, TheKeyOfAnotherConnectionIsNotSet) {
  const Address earlier = network_->bound(address_);
  handshake(control_.emplace(connect()), hello_);
  introduce(*control_);
  network_->set_link_key(earlier, key_of(2));
  network_->set_link_key(network_->bound(address_), key_of(1));
  RawPeer bulk = connect();
  handshake_bulk(bulk, bulk_hello());
}

TEST_F(LinkTest, WithoutAKeyNoProofIsExchanged) {
  handshake(control_.emplace(connect()), hello_);
  introduce(*control_);
  RawPeer bulk = connect();
  EXPECT_EQ(handshake(bulk, bulk_hello()).status, Errc::kConnectionLost);
}

TEST_F(LinkTest, ABulkConnectionFromBeforeTheKeyEndsThePeer) {
  Hello h = hello_;
  h.channel = 1;
  h.token = handshake(control_.emplace(connect()), hello_).token;
  introduce(*control_);
  RawPeer early = connect();
  EXPECT_EQ(handshake(early, h).status, Errc::kOk);
  network_->set_link_key(network_->bound(address_), key_of(1));
  EXPECT_TRUE(drive([&] { return early.ended() && control_->ended(); }));
}

/// This side connects; the test is the server.
class LinkConnectorTest : public ModuleTest {
 protected:
  void SetUp() override {
    ModuleTest::SetUp();
    const Endpoint any = parse_url("tcp://127.0.0.1:0").value();
    listener_ = listen_on(any).value();
    server_ = network_->lookup(std::vector{advertised_url(any, listener_.get())}).value();
  }
  RawPeer accept() {
    UniqueFd fd;
    EXPECT_TRUE(drive([&] {
      fd.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return static_cast<bool>(fd);
    }));
    return RawPeer(std::move(fd));
  }
  HelloBytes hello_from(RawPeer& peer) {
    Bytes bytes;
    EXPECT_TRUE(drive([&] {
      const Bytes more = peer.read();
      bytes.insert(bytes.end(), more.begin(), more.end());
      return bytes.size() >= kHelloSize;
    }));
    HelloBytes hello{};
    std::copy_n(bytes.begin(), kHelloSize, hello.begin());
    return hello;
  }
  /// The control connection is open, and a receive of the bulk class is posted. Returns the bulk connection that comes
  /// for it.
  RawPeer bulk_connection() {
    send(server_, 1, sent_);
    control_.emplace(accept());
    const auto hello = decode_hello(hello_from(*control_).data());
    EXPECT_EQ(hello->versions.max, kVersionMax);
    EXPECT_TRUE(control_->write(encode(Welcome{Errc::kOk, kVersionMax, 7, {1 << 20, 4096, 10}})));
    EXPECT_TRUE(drive([&] { return network_->peer_info(server_).connected; }));
    network_->set_link_key(network_->bound(server_), key_of(1));
    received_ = receive(server_, 2, room_, MessageClass::kBulk);
    return accept();
  }
  static WelcomeBytes welcome(std::uint16_t version = kProvingVersion) {
    return encode(Welcome{Errc::kOk, version, 99, {}});
  }

  UniqueFd listener_;
  Address server_;
  std::optional<RawPeer> control_;
  Bytes sent_ = Bytes(1);
  Bytes room_ = Bytes(10);
  OpId received_;
};

TEST_F(LinkConnectorTest, TheConnectorProvesTheKeyToAnAcceptorThatHasProvedIt) {
  RawPeer bulk = bulk_connection();
  const HelloBytes hello = hello_from(bulk);
  EXPECT_EQ(decode_hello(hello.data())->versions.min, kProvingVersion);
  EXPECT_NE(decode_hello(hello.data())->token, 7U);
  EXPECT_TRUE(bulk.write(welcome()));
  EXPECT_TRUE(bulk.write(link_proof(key_of(1), Side::kAcceptor, hello, welcome())));
  Bytes proof;
  EXPECT_TRUE(drive([&] {
    const Bytes more = bulk.read();
    proof.insert(proof.end(), more.begin(), more.end());
    return proof.size() >= sizeof(LinkProof);
  }));
  const LinkProof wanted = link_proof(key_of(1), Side::kConnector, hello, welcome());
  EXPECT_BYTES(proof, wanted);
  FrameHeader header = frame(FrameType::kReady, 2, 3);
  header.message_class = MessageClass::kBulk;
  EXPECT_TRUE(bulk.write_frame(header, Bytes(3)));
  EXPECT_EQ(finish(received_), Errc::kOk);
}

TEST_F(LinkConnectorTest, TheConnectorDropsAnAcceptorThatCannotProveTheKey) {
  RawPeer bulk = bulk_connection();
  const HelloBytes hello = hello_from(bulk);
  EXPECT_TRUE(bulk.write(welcome()));
  EXPECT_TRUE(bulk.write(link_proof(key_of(2), Side::kAcceptor, hello, welcome())));
  EXPECT_EQ(finish(received_), Errc::kConnectionLost);
}

TEST_F(LinkConnectorTest, AWelcomeOfAnEarlierVersionIsNotEnough) {
  RawPeer bulk = bulk_connection();
  hello_from(bulk);
  EXPECT_TRUE(bulk.write(welcome(1)));
  FrameHeader header = frame(FrameType::kReady, 2, 3);
  header.message_class = MessageClass::kBulk;
  EXPECT_TRUE(bulk.write_frame(header, Bytes(3)));
  EXPECT_EQ(finish(received_), Errc::kConnectionLost);
}

TEST_F(LinkConnectorTest, AnOlderServerGetsNoProofOfAKey) {
  send(server_, 1, sent_);
  control_.emplace(accept());
  hello_from(*control_);
  EXPECT_TRUE(control_->write(encode(Welcome{Errc::kOk, 1, 7, {1 << 20, 4096, 10}})));
  EXPECT_TRUE(drive([&] { return network_->peer_info(server_).connected; }));
  receive(server_, 2, room_, MessageClass::kBulk);
  RawPeer bulk = accept();
  const auto hello = decode_hello(hello_from(bulk).data());
  EXPECT_EQ(hello->versions.max, 1);
  EXPECT_EQ(hello->token, 7U);
}

}  // namespace
}  // namespace spate::bmi::tcp
