// SPDX-License-Identifier: Apache-2.0
// A handshake of version 2 with fixed nonces, and all values derived from it (docs/wire.md, "Handshake").
#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "rpc/acceptor.h"
#include "rpc/initiator.h"
#include "rpc/seals.h"
#include "tests/golden/catalog.h"
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

constexpr ServerId kServer{3};
constexpr std::string_view kReached = "tcp://10.0.0.7:7400";

Item item_of(const std::string& name, ByteView bytes) {
  Item item;
  item.name = "auth/" + name;
  item.comment = name + " of a handshake, protocol 2: docs/wire.md";
  item.since = 2;
  item.bytes = to_bytes(bytes);
  item.read = [expected = item.bytes](ByteView given) -> std::string {
    return std::ranges::equal(given, expected) ? "" : "is not what is derived now";
  };
  return item;
}

Bytes success_head() {
  wire::ReplyHeader header;
  header.incarnation = Incarnation(8);
  header.map_version = 9;
  Bytes head;
  wire::encode_body(header, head);
  return head;
}

rpc::Received received(const Bytes& message) {
  wire::RequestHeader header;
  wire::Reader reader(message);
  reader(header);
  return {message, ByteView(message).last(reader.decoder().remaining()), header.version};
}

UserKey sample_user_key() {
  UserKey key;
  key.id = {std::byte{0x71}, std::byte{0x72}, std::byte{0x73}};
  key.user = {1000, 100, {4, 27}};
  key.read_only = true;
  key.until = WallTime{1'800'000'000'000'000'000};
  return key;
}

}  // namespace

std::vector<Item> auth_items() {
  SeededRandom random(1);
  rpc::Identity identity;
  identity.fs = kFs;
  identity.key = client_key();
  identity.features = wire::kFeatureLeases;
  rpc::Initiator initiator(identity, kServer, 2, random);
  rpc::AcceptorOptions options;
  options.fs = kFs;
  options.server = kServer;
  options.client_key = client_key();
  options.server_key = server_key();
  const rpc::Acceptor acceptor(options);
  wire::RequestHeader header;
  header.fs = kFs;
  header.reply_room = 4096;

  std::vector<Item> items;
  const wire::FileKey file(kFs, client_key());
  const Key key = file.for_acceptor(wire::KeyRole::kClient, kServer);
  items.push_back(item_of("psk", file.secret));
  items.push_back(item_of("key_id", file.id()));
  items.push_back(item_of("acceptor_key", key));
  const Bytes restrictions = encoded(sample_user_key());
  items.push_back(item_of("user_restrictions", restrictions));
  items.push_back(item_of("user_psk", file.for_user(restrictions).secret));
  const Bytes hello = initiator.hello(header);
  items.push_back(item_of("hello.request", hello));
  std::optional<rpc::Handshake> handshake(std::in_place);
  Bytes reply = success_head();
  const auto body = acceptor.hello(received(hello), reply, {kReached}, random, *handshake);
  reply.insert(reply.end(), body->begin(), body->end());
  items.push_back(item_of("hello.reply", reply));
  items.push_back(item_of("base", handshake->transcript->base()));
  items.push_back(item_of("transcript1", handshake->transcript->state()));
  items.push_back(item_of("server_mac", handshake->transcript->server_mac()));
  SPATE_CHECK(initiator.welcome(reply, kReached).has_value());
  wire::AuthenticateRequest request;
  request.incarnation = 4;
  request.description = "node7:4711:cp";
  const Bytes authenticate = initiator.authenticate(header, request);
  items.push_back(item_of("authenticate.request", authenticate));
  items.push_back(item_of("finished", ByteView(authenticate).last(sizeof(wire::Proof))));
  std::ignore = handshake->transcript->finish(ByteView(authenticate).first(authenticate.size() - sizeof(wire::Proof)));
  items.push_back(item_of("transcript3", handshake->transcript->state()));
  const wire::SessionKeys keys = *initiator.keys();
  items.push_back(item_of("initiator_seal", keys.initiator_seal));
  items.push_back(item_of("acceptor_seal", keys.acceptor_seal));
  items.push_back(item_of("initiator_data", keys.initiator_data));
  items.push_back(item_of("acceptor_data", keys.acceptor_data));
  items.push_back(item_of("link", keys.link));
  Bytes sealed = success_head();
  const auto code = rpc::Seals(keys, rpc::End::kAcceptor).seal(bmi::Tag(0x0102030405060000), {sealed});
  sealed.insert(sealed.end(), code.begin(), code.end());
  items.push_back(item_of("sealed.reply", sealed));
  const ByteView data = as_bytes("eight by");
  const auto bulk_code = rpc::bulk_seals(keys, rpc::End::kAcceptor)->seal(0x0102030405060001, 2, {&data, 1});
  items.push_back(item_of("bulk.code", bulk_code));
  return items;
}

}  // namespace spate::golden
