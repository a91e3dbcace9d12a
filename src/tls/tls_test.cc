// SPDX-License-Identifier: Apache-2.0
// Two streams over a pair of sockets.
#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "base/unique_fd.h"
#include "tls/certificates_fixture.h"
#include "tls/openssl_context.h"

namespace spate::tls {
namespace {

/// A connection whose two ends take turns.
struct Pair {
  UniqueFd client_socket;
  UniqueFd server_socket;
  std::unique_ptr<Stream> client;
  std::unique_ptr<Stream> server;

  Pair() {
    std::array<int, 2> ends{};
    SPATE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    client_socket.reset(ends[0]);
    server_socket.reset(ends[1]);
  }
  Pair(Context& connecting, Context& accepting, const std::string& host = "127.0.0.1") : Pair() {
    client = take(connecting.connect(client_socket.get(), host));
    server = take(accepting.accept(server_socket.get()));
  }
  static std::unique_ptr<Stream> take(Result<std::unique_ptr<Stream>> made) {
    EXPECT_OK(made);
    return *std::move(made);
  }
  /// Runs until both are done or one fails. Then the client reads once, and so learns whether the server refused it.
  void shake_hands() {
    Handshake at_client = Handshake::kWantsRead;
    Handshake at_server = Handshake::kWantsRead;
    const auto open = [](Handshake h) { return h == Handshake::kWantsRead || h == Handshake::kWantsWrite; };
    for (int turn = 0; turn < 20 && (open(at_client) || open(at_server)); ++turn) {
      if (open(at_client)) at_client = client->handshake();
      if (open(at_server)) at_server = server->handshake();
      if (at_client == Handshake::kFailed) client_socket.reset();
      if (at_server == Handshake::kFailed) break;
    }
    done = at_client == Handshake::kDone && at_server == Handshake::kDone;
    if (at_client != Handshake::kFailed && !done) std::ignore = read(*client, 1);
  }
  static std::string read(Stream& stream, std::size_t size) {
    std::string text(size, '\0');
    const iovec piece{text.data(), text.size()};
    const ssize_t n = stream.read({&piece, 1});
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }
  static ssize_t write(Stream& stream, std::string_view text) {
    const iovec piece{const_cast<char*>(text.data()), text.size()};
    return stream.write({&piece, 1});
  }
  bool done = false;
};

struct World {
  Certificates certificates;
  std::unique_ptr<Context> server = context(certificates.issue("server"));
  std::unique_ptr<Context> client = context(certificates.issue("client", {.names = ""}));

  static std::unique_ptr<Context> context(const Files& files) { return make_context({.files = files}); }
  static std::unique_ptr<Context> by_key(std::shared_ptr<Keys> keys) { return make_context({.keys = std::move(keys)}); }
};

/// The client's reason, and the server's, when the handshake fails.
std::pair<std::string, std::string> reasons(Context& client, Context& server, const std::string& host = "127.0.0.1") {
  Pair pair(client, server, host);
  pair.shake_hands();
  EXPECT_FALSE(pair.done);
  return {pair.client->failure(), pair.server->failure()};
}

void expect_same_both_ways(Pair& pair) {
  pair.shake_hands();
  ASSERT_TRUE(pair.done) << pair.client->failure() << " / " << pair.server->failure();
  EXPECT_EQ(pair.client->binding(), pair.server->binding());
  EXPECT_NE(pair.client->binding(), Hash{});
  for (const auto& [from, to] :
       {std::pair(pair.client.get(), pair.server.get()), {pair.server.get(), pair.client.get()}}) {
    EXPECT_EQ(Pair::write(*from, "hello"), 5);
    EXPECT_EQ(from->flush(), 0);
    EXPECT_EQ(Pair::read(*to, 100), "hello");
  }
}

TEST(Tls, CarriesBytesBothWaysByCertificateAndByKey) {
  World world;
  Pair by_certificate(*world.client, *world.server);
  expect_same_both_ways(by_certificate);
  EXPECT_EQ(by_certificate.client->description(), "TLS 1.3 TLS_AES_128_GCM_SHA256, by certificate");
  const auto keys = World::by_key(std::make_shared<OneKey>());
  Pair by_key(*keys, *keys);
  expect_same_both_ways(by_key);
  EXPECT_EQ(by_key.server->description(), "TLS 1.3 TLS_AES_128_GCM_SHA256, by key");
  EXPECT_NE(by_key.client->binding(), by_certificate.client->binding());
}

// A reader that took a part gets one event for later bytes, and may have had it before it reads on.
TEST(Tls, AReadReturnsAllBytesThatHaveArrived) {
  World world;
  Pair pair(*world.client, *world.server);
  pair.shake_hands();
  ASSERT_TRUE(pair.done);
  for (const std::string_view text : {"first", "second"}) {
    EXPECT_EQ(Pair::write(*pair.client, text), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(pair.client->flush(), 0);
    if (text == "first") EXPECT_EQ(Pair::read(*pair.server, 2), "fi");
  }
  EXPECT_EQ(Pair::read(*pair.server, 100), "rstsecond");
}

TEST(Tls, LargeWritesWaitForTheReaderInBoundedMemory) {
  World world;
  Pair pair(*world.client, *world.server);
  pair.shake_hands();
  ASSERT_TRUE(pair.done);
  std::string sent(8U << 20U, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 3U);
  std::string got;
  for (std::size_t at = 0; got.size() < sent.size();) {
    const ssize_t n = Pair::write(*pair.client, std::string_view(sent).substr(at));
    if (n < 0) ASSERT_EQ(errno, EAGAIN);
    if (n > 0) at += static_cast<std::size_t>(n);
    std::ignore = pair.client->flush();
    ASSERT_LE(at, got.size() + (1U << 20U));  // the sockets' buffers, and what a stream keeps
    got += Pair::read(*pair.server, 100'000);
  }
  EXPECT_BYTES(std::as_bytes(std::span(got)), std::as_bytes(std::span(sent)));
}

TEST(Tls, AnEndInOrderDiffersFromATruncation) {
  World world;
  Pair ordered(*world.client, *world.server);
  ordered.shake_hands();
  ordered.server->end();
  std::byte byte{};
  const iovec piece{&byte, 1};
  EXPECT_EQ(ordered.client->read({&piece, 1}), 0);
  Pair cut(*world.client, *world.server);
  cut.shake_hands();
  ASSERT_TRUE(cut.done);
  cut.server_socket.reset();
  EXPECT_EQ(cut.client->read({&piece, 1}), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_TRUE(cut.client->ended());
}

TEST(Tls, AnAlteredByteEndsTheConnection) {
  World world;
  Pair pair(*world.client, *world.server);
  pair.shake_hands();
  const std::array<unsigned char, 64> junk{0x17, 0x03, 0x03, 0x00, 0x20};
  ASSERT_EQ(::send(pair.client_socket.get(), junk.data(), 37, 0), 37);
  EXPECT_EQ(Pair::read(*pair.server, 10), "");
  EXPECT_NE(pair.server->failure().find("breaks TLS"), std::string::npos) << pair.server->failure();
}

struct Refusal {
  const char* what;
  Wanted wanted;
  const char* reason;
};

TEST(Tls, AClientReportsTheErrorOfTheServersCertificate) {
  World world;
  for (const Refusal& refusal : {
           Refusal{"expired", {.from_s = -7200, .to_s = -60}, "the server's certificate has expired"},
           Refusal{"early", {.from_s = 3600}, "the server's certificate is not valid yet"},
           Refusal{"own", {.self_signed = true}, "the server's certificate is self-signed"},
           Refusal{"host", {.names = "DNS:other.example"}, "the server's certificate is for another host"},
           Refusal{"use", {.use = "clientAuth"}, "the server's certificate is for another use"},
       }) {
    const auto server = World::context(world.certificates.issue(refusal.what, refusal.wanted));
    const auto [client_says, server_says] = reasons(*world.client, *server);
    EXPECT_TRUE(client_says.starts_with(refusal.reason)) << refusal.what << ": " << client_says;
    EXPECT_TRUE(server_says.starts_with("the client does not accept this side's certificate"))
        << refusal.what << ": " << server_says;
  }
}

TEST(Tls, AServerReportsTheErrorOfTheClientsCertificate) {
  World world;
  Certificates other;
  for (const Refusal& refusal : {
           Refusal{"expired", {.from_s = -7200, .to_s = -60}, "the client's certificate has expired"},
           Refusal{"own", {.self_signed = true}, "the client's certificate is self-signed"},
           Refusal{"use", {.use = "serverAuth"}, "the client's certificate is for another use"},
       }) {
    const auto client = World::context(world.certificates.issue(refusal.what, refusal.wanted));
    const auto [client_says, server_says] = reasons(*client, *world.server);
    EXPECT_TRUE(server_says.starts_with(refusal.reason)) << refusal.what << ": " << server_says;
    EXPECT_TRUE(client_says.starts_with("the server does not accept this side's certificate"))
        << refusal.what << ": " << client_says;
  }
  Files foreign = other.issue("foreign");
  foreign.authority = world.certificates.folder() + "/ca.pem";  // it trusts the server, which does not trust it
  const auto [client_says, server_says] = reasons(*World::context(foreign), *world.server);
  EXPECT_EQ(server_says, "the client's certificate is not signed by tls.ca");
  EXPECT_EQ(client_says, "the server does not accept this side's certificate: its tls.ca has not signed it");
}

TEST(Tls, ARevokedCertificateIsRefusedOnBothSides) {
  World world;
  Files server_files = world.certificates.issue("server");
  server_files.revoked = world.certificates.revoke(false);
  const auto server = World::context(server_files);
  const Files client_files = world.certificates.issue("taken");
  const auto client = World::context(client_files);
  Pair before(*client, *server);
  expect_same_both_ways(before);
  world.certificates.revoke(true);  // without a restart of the server
  auto [client_says, server_says] = reasons(*client, *server);
  EXPECT_EQ(server_says, "the client's certificate was revoked (tls.revoked)");
  EXPECT_EQ(client_says, "the server does not accept this side's certificate: it was revoked");
  Pair another(*world.client, *server);
  expect_same_both_ways(another);
  Files checks = world.certificates.issue("checks");
  checks.revoked = server_files.revoked;
  EXPECT_EQ(reasons(*World::context(checks), *World::context(client_files)).first,
            "the server's certificate was revoked (tls.revoked)");
}

TEST(Tls, WithoutAValidListOfRevokedCertificatesNoneIsAccepted) {
  World world;
  Files files = world.certificates.issue("server");
  files.revoked = world.certificates.revoke(false, -60);
  const auto expired = World::context(files);
  ASSERT_OK(expired->open());
  EXPECT_LT(expired->facts()->lists_end.value(), std::chrono::system_clock::now());
  EXPECT_EQ(reasons(*world.client, *World::context(files)).second,
            "the client's certificate cannot be checked: the list of revoked certificates (tls.revoked) has expired");
  Certificates other;
  files.revoked = other.revoke(false);
  EXPECT_EQ(
      reasons(*world.client, *World::context(files)).second,
      "the client's certificate cannot be checked: tls.revoked has no valid list of the authority that signed it");
}

TEST(Tls, KeysThatDifferAreRefusedOnBothSides) {
  const auto own = World::by_key(std::make_shared<OneKey>());
  const auto unknown = World::by_key(std::make_shared<OneKey>("unknown"));
  auto [client_says, server_says] = reasons(*unknown, *own);
  EXPECT_EQ(server_says, "the client names a key that this file system does not have");
  EXPECT_TRUE(client_says.starts_with("the server does not accept this key")) << client_says;
  const auto wrong = World::by_key(std::make_shared<OneKey>("key", std::byte{8}));
  std::tie(client_says, server_says) = reasons(*wrong, *own);
  EXPECT_EQ(server_says, "the client does not hold the key that it names");
  EXPECT_TRUE(client_says.starts_with("the server does not accept this key")) << client_says;
}

TEST(Tls, KeysAndCertificatesDoNotMeet) {
  World world;
  const auto keys = World::by_key(std::make_shared<OneKey>());
  EXPECT_EQ(reasons(*keys, *world.server).first,
            "the server shows a certificate, and this side has a key (tls.certificate)");
  EXPECT_NE(reasons(*world.client, *keys).second, "");
}

TEST(Tls, APlainPeerIsNamed) {
  World world;
  Pair pair;
  pair.server = Pair::take(world.server->accept(pair.server_socket.get()));
  const std::string hello = "SPATEtcp" + std::string(56, '\0');
  ASSERT_EQ(::send(pair.client_socket.get(), hello.data(), hello.size(), 0), 64);
  EXPECT_EQ(pair.server->handshake(), Handshake::kFailed);
  EXPECT_TRUE(pair.server->heard_no_tls());
  EXPECT_EQ(pair.server->failure(),
            "the client does not speak TLS: its spate.toml may have tcp:// for this tcp+tls:// address");
}

TEST(Tls, OlderVersionsAreRefused) {
  World world;
  Pair pair;
  pair.server = Pair::take(world.server->accept(pair.server_socket.get()));
  const Owned<SSL_CTX> context(::SSL_CTX_new(::TLS_client_method()));
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  const Owned<SSL> client(::SSL_new(context.get()));
  ::SSL_set_fd(client.get(), pair.client_socket.get());
  EXPECT_EQ(::SSL_connect(client.get()), -1);
  EXPECT_EQ(pair.server->handshake(), Handshake::kFailed);
  EXPECT_EQ(pair.server->failure(), "the client speaks only TLS 1.2 or older");
  EXPECT_FALSE(pair.server->heard_no_tls());
}

TEST(Tls, AnotherProtocolInsideIsRefused) {
  World world;
  Settings settings{.files = world.certificates.issue("other")};
  settings.protocol = "http/1.1";
  const auto client = make_context(settings);
  const auto [client_says, server_says] = reasons(*client, *world.server);
  EXPECT_EQ(client_says, "the server speaks another protocol inside of TLS");
  EXPECT_EQ(server_says, "the client speaks another protocol inside of TLS");
}

TEST(Tls, FilesAreCheckedAndNamed) {
  Certificates certificates;
  const Files good = certificates.issue("good");
  const auto why = [](const Files& files) {
    const auto opened = make_context({.files = files})->open();
    EXPECT_FALSE(opened);
    return opened ? std::string() : opened.error().message();
  };
  const auto with = [&](std::string Files::* member, const std::string& value) {
    Files files = good;
    files.*member = value;
    return files;
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(why(with(&Files::certificate, "/nonexistent/c.pem")), "/nonexistent/c.pem: No such file");
  contains(why(with(&Files::authority, "/nonexistent/ca.pem")), "/nonexistent/ca.pem");
  contains(why(with(&Files::key, "/nonexistent/k.pem")), "/nonexistent/k.pem");
  contains(why(with(&Files::key, certificates.issue("other").key)), "is not the key of");
  const std::string empty = certificates.folder() + "/empty.pem";
  std::ofstream(empty).close();
  contains(why(with(&Files::certificate, empty)), "empty.pem");
  contains(why(with(&Files::revoked, empty)), "empty.pem");
  contains(why(with(&Files::revoked, "/nonexistent/crl.pem")), "/nonexistent/crl.pem");
  ASSERT_EQ(::chmod(good.key.c_str(), 0644), 0);
  contains(why(good), "can be read or changed by others; chmod 600 it");
}

TEST(Tls, ACertificateThatWasReplacedIsUsedForTheNextConnection) {
  World world;
  std::vector<std::string> notes;
  const Files files = world.certificates.issue("renewed", {.to_s = 60});
  Settings settings{.files = files};
  settings.note = [&](bool good, const std::string& what) { notes.push_back((good ? "good: " : "bad: ") + what); };
  const auto server = make_context(settings);
  ASSERT_OK(server->open());
  const auto before = server->facts()->not_after;
  world.certificates.issue("renewed", {.to_s = 86400});
  Pair pair(*world.client, *server);
  expect_same_both_ways(pair);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].starts_with("good: ")) << notes[0];
  EXPECT_GT(server->facts()->not_after, before + std::chrono::hours(1));
  EXPECT_EQ(server->facts()->names, "127.0.0.1, localhost");
  EXPECT_FALSE(server->facts()->lists_end);
  std::ofstream(files.certificate) << "nonsense\n";  // the earlier certificate stays in use
  Pair again(*world.client, *server);
  expect_same_both_ways(again);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_TRUE(notes[1].starts_with("bad: ")) << notes[1];
}

}  // namespace
}  // namespace spate::tls
