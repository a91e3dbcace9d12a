// SPDX-License-Identifier: Apache-2.0
// Fuzzer of the handshake. A relay that alters a message is never let in. A peer that holds a key and sends any bytes
// under good MACs crashes nobody. The holder of a user's key is let in with its restrictions exactly if it has any.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "rpc/handshake_fixture.h"

namespace {

using spate::Bytes;
using spate::ByteView;
using spate::rpc::Meeting;

/// The fuzzer's bytes, taken from the front.
class Script {
 public:
  explicit Script(ByteView bytes) : bytes_(bytes) {}
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto first = std::to_integer<std::uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::uint16_t word() {
    const std::uint16_t high = byte();
    return static_cast<std::uint16_t>(high << 8U | byte());
  }
  Bytes run(std::size_t most) {
    const std::size_t size = std::min<std::size_t>({word(), most, bytes_.size()});
    Bytes taken(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
    bytes_ = bytes_.subspan(size);
    return taken;
  }

 private:
  ByteView bytes_;
};

void alter(Script& script, Bytes& message) {
  switch (script.byte() % 5) {
    case 0: break;
    case 1:
      if (!message.empty()) message[script.word() % message.size()] ^= static_cast<std::byte>(script.byte());
      break;
    case 2: message.resize(script.word() % (message.size() + 1)); break;
    case 3: {
      const Bytes more = script.run(512);
      message.insert(message.end(), more.begin(), more.end());
      break;
    }
    default: message = script.run(4096);
  }
}

/// A relay between the two, which may alter each message.
void relay(Script& script) {
  Meeting meeting;
  bool altered = false;
  const auto on_way = [&](Bytes& message) {
    const Bytes before = message;
    alter(script, message);
    altered |= message != before;
  };
  meeting.on_hello = meeting.on_reply = meeting.on_authenticate = on_way;
  const bool in = meeting.handshake().has_value();
  SPATE_CHECK(in == !altered);
  SPATE_CHECK(!in || meeting.keys.initiator_seal == meeting.initiator_keys.initiator_seal);
}

constexpr std::size_t kProof = sizeof(spate::wire::Proof);

/// The transcript so far, as a holder of the client key computes it.
std::optional<spate::wire::Transcript> transcript_of(const Bytes& hello, const Bytes& reply) {
  using namespace spate::wire;
  const auto asked = decode_body_and<HelloRequest, HelloOffer>(Meeting::received(hello).body);
  ReplyHeader header;
  Reader reader(reply);
  reader(header);
  if (!asked || !reader.decoder().ok()) return std::nullopt;
  const auto answered = decode_body_and<HelloReply, HelloAnswer>(ByteView(reply).last(reader.decoder().remaining()));
  if (!answered) return std::nullopt;
  const spate::Key key =
      FileKey(spate::FsId(0xF5), spate::rpc::key_of(1)).for_acceptor(KeyRole::kClient, answered->first.server);
  return Transcript(key, asked->first.client_nonce, answered->first.server_nonce, hello,
                    ByteView(reply).first(reply.size() - kProof));
}

/// A client that holds the key and sends any body, under a MAC of what it really sends.
void client_with_key(Script& script) {
  Meeting meeting;
  meeting.on_authenticate = [&](Bytes& message) {
    const std::size_t head = message.size() - Meeting::received(message).body.size();
    Bytes said(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(head));
    Bytes body(message.begin() + static_cast<std::ptrdiff_t>(head), message.end() - kProof);
    alter(script, body);
    said.insert(said.end(), body.begin(), body.end());
    const auto finished = transcript_of(meeting.hello, meeting.reply)->finish(said);
    said.insert(said.end(), finished.begin(), finished.end());
    message = said;
  };
  std::ignore = meeting.handshake();
}

/// A server that holds the key and sends any body, under a MAC of what it really sends.
void server_with_key(Script& script) {
  Meeting meeting;
  meeting.on_reply = [&](Bytes& reply) {
    Bytes said(reply.begin(), reply.end() - kProof);
    alter(script, said);
    said.resize(said.size() + kProof);
    if (const auto transcript = transcript_of(meeting.hello, said))
      std::ranges::copy(transcript->server_mac(), said.end() - kProof);
    reply = said;
  };
  std::ignore = meeting.handshake();
}

/// A client with a key that the operator has derived from any restrictions.
void client_with_user_key(Script& script) {
  using namespace spate;
  const wire::FileKey issuer(FsId(0xF5), rpc::key_of(1));
  Meeting meeting;
  ClientKey key;
  key.issuer = issuer.id();
  key.restrictions = script.run(512);
  if (key.restrictions.empty()) return;
  key.secret = issuer.for_user(key.restrictions).secret;
  meeting.identity.key = key;
  const bool in = meeting.handshake().has_value();
  const auto restrictions = decode_user_key(key.restrictions);
  SPATE_CHECK(in == restrictions.has_value());
  SPATE_CHECK(!in || meeting.user_key == *restrictions);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script(std::as_bytes(std::span(data, size)));
  switch (script.byte() % 4) {
    case 0: relay(script); break;
    case 1: client_with_key(script); break;
    case 2: server_with_key(script); break;
    default: client_with_user_key(script);
  }
  return 0;
}
