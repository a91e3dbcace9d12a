// SPDX-License-Identifier: Apache-2.0
// Samples of common values, of the headers, and of the messages that every server knows.
#include "base/check.h"
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

Key key_from(std::uint8_t first) {
  Key key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(first + i);
  return key;
}

wire::Nonce nonce_from(std::uint8_t first) {
  wire::Nonce nonce{};
  for (std::size_t i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<std::byte>(first + i);
  return nonce;
}

Bytes bytes_of(std::string_view text) { return to_bytes(as_bytes(text)); }

wire::AuthenticateRequest proven(wire::AuthenticateRequest request) {
  const bool server = request.kind == wire::PeerKind::kServer;
  request.proof = wire::auth_proof(server ? server_key() : client_key(), request, nonce_from(0x40));
  return request;
}

}  // namespace

Key server_key() { return key_from(0x60); }
Key client_key() { return key_from(0xA0); }

Attributes sample_attributes() {
  Attributes a;
  a.handle = Handle(0x0002000000000007);
  a.type = FileType::kRegular;
  a.mode = 06754;
  a.uid = 1001;
  a.gid = 1002;
  a.project = 1003;
  a.link_count = 3;
  a.device = 0x0801;
  a.size = 0x123456789A;
  a.allocated_bytes = 0x123456A000;
  a.atime = WallTime{1'700'000'000'000'000'001};
  a.mtime = WallTime{1'700'000'000'000'000'002};
  a.ctime = WallTime{1'700'000'000'000'000'003};
  a.btime = WallTime{-4};
  a.version = 77;
  a.size_known = false;
  a.change_sum = 0xFEDCBA9876543210;
  return a;
}

Layout sample_layout() {
  Layout layout;
  layout.generation = 2;
  layout.strip_bytes = 65536;
  layout.slots = {Slot{{TargetId(256)}}, Slot{{TargetId(512), TargetId(513)}}, Slot{{TargetId(768)}}};
  return layout;
}

Layout sample_mirrored_layout() {
  Layout layout = sample_layout();
  layout.redundancy = Redundancy::kMirror;
  layout.slots = {Slot{{TargetId(0x01000002)}}, Slot{{TargetId(0x01000003)}}};
  return layout;
}

DataGroup sample_group() {
  DataGroup group;
  group.id = TargetId(0x01000002);
  group.epoch = 0x0102030405060708;
  group.primary = TargetId(512);
  group.members = {{TargetId(256), MemberState::kAbsent},
                   {TargetId(512), MemberState::kServing},
                   {TargetId(768), MemberState::kJoining}};
  group.min = 2;
  group.loss = 3;
  return group;
}

Credential sample_credential() { return {1001, 1002, {4, 27, 0xFFFFFFFE}}; }

Capability sample_capability() {
  Capability c;
  c.handle = Handle(0x0002000000000007);
  c.rights = Rights::kReadWrite;
  c.layout_generation = 2;
  c.client = ClientId(0x0102030405060708);
  c.session_epoch = 5;
  c.uid = 1001;
  c.gid = 1002;
  c.project = 1003;
  c.expiry = WallTime{1'700'000'600'000'000'000};
  c.mac = sign(server_key(), kFs, c);
  return c;
}

SessionTicket sample_ticket() {
  SessionTicket t;
  t.client = ClientId(0x0102030405060708);
  t.epoch = 5;
  t.uid = 1001;
  t.gid = 1002;
  t.expiry = WallTime{1'700'000'600'000'000'001};
  t.mac = sign(server_key(), kFs, t);
  return t;
}

ClusterMap sample_map() {
  ClusterMap map;
  map.version = 9;
  map.fs = kFs;
  map.servers = {
      {ServerId(1), {"tcp://meta-1:7400"}, {true, false}, {}},
      {ServerId(2), {"tcp://10.0.0.2:7400", "tcp://[fe80::2]:7400"}, {false, true}, {TargetId(512), TargetId(513)}},
      {ServerId(3), {"tcp://io-3:7400"}, {true, true}, {TargetId(768)}},
  };
  return map;
}

std::vector<datatype::Description> sample_descriptions() {
  using datatype::Description;
  using datatype::Level;
  const Extent pieces[] = {{4096, 100}, {0, 50}, {1ULL << 40U, 1}};
  const Level levels[] = {{3, 1'000'000}, {10, 4096}};
  const auto made = [](Result<Description> d) {
    SPATE_CHECK(d.has_value());
    return *std::move(d);
  };
  return {made(Description::contiguous(0x1000, 0x200000)), made(Description::list(pieces)),
          made(Description::strided(77, 512, levels)), made(Description::strided_window(78, 512, levels, {600, 9000}))};
}

template <>
std::vector<wire::RequestHeader> samples() {
  wire::RequestHeader full;
  full.version = 1;
  full.op = wire::Op::kWrite;
  full.fs = kFs;
  full.client = ClientId(0x0102030405060708);
  full.session_epoch = 5;
  full.map_version = 9;
  full.trace = TraceId(0x99AABBCCDDEEFF00);
  full.priority = wire::Priority::kBackground;
  full.deadline_ms = 30'000;
  full.reply_room = 16'384;
  full.id = {3, 0x1718};
  full.capability = sample_capability();
  wire::RequestHeader small = full;
  small.op = wire::Op::kGetattr;
  small.priority = wire::Priority::kControl;
  small.id = {};
  small.capability.reset();
  return {full, small};
}

template <>
std::vector<wire::ReplyHeader> samples() {
  wire::ReplyHeader good;
  good.version = 1;
  good.status = Errc::kOk;
  good.incarnation = Incarnation(0x0F0E0D0C0B0A0908);
  good.map_version = 9;
  wire::ReplyHeader bad = good;
  bad.status = Errc::kNoSpace;
  bad.context = "target 513 is full";
  return {good, bad};
}

template <>
std::vector<wire::HelloRequest> samples() {
  wire::HelloRequest m;
  m.oldest_version = 1;
  m.newest_version = 2;
  m.features = 0x8000000000000001;
  m.fs = kFs;
  m.client_nonce = nonce_from(0x40);
  return {m};
}

template <>
std::vector<wire::HelloReply> samples() {
  wire::HelloReply m;
  m.version = 1;
  m.features = 0x8000000000000002;
  m.fs = kFs;
  m.server = ServerId(3);
  m.key_required = true;
  m.server_nonce = nonce_from(0x50);
  return {m};
}

template <std::size_t N>
std::array<std::byte, N> bytes_from(unsigned first) {
  std::array<std::byte, N> bytes{};
  for (std::size_t i = 0; i < N; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

template <>
std::vector<wire::HelloOffer> samples() {
  wire::HelloOffer m;
  m.server = ServerId(3);
  m.key_id = bytes_from<8>(0x60);
  m.user_key = {std::byte{0x71}, std::byte{0x72}};
  m.suites = 0x8001;
  m.protect = wire::Protect::kControl;
  return {m};
}

template <>
std::vector<wire::HelloAnswer> samples() {
  wire::HelloAnswer m;
  m.suite = wire::Suite::kUmac64;
  m.protect = wire::Protect::kControl;
  m.reached = "tcp://[::1]:7403";
  m.server_mac = bytes_from<32>(0x80);
  return {m};
}

template <>
std::vector<wire::AuthenticateFinish> samples() {
  wire::AuthenticateFinish m;
  m.finished = bytes_from<32>(0xA0);
  return {m};
}

template <>
std::vector<wire::AuthenticateRequest> samples() {
  wire::AuthenticateRequest client;
  client.kind = wire::PeerKind::kClient;
  client.client = ClientId(0x0102030405060708);
  client.incarnation = 4;
  client.credential = sample_credential();
  client.description = "node7:4711:cp";
  client.ticket = sample_ticket();
  client.server_nonce = nonce_from(0x50);
  wire::AuthenticateRequest server = client;
  server.kind = wire::PeerKind::kServer;
  server.client = ClientId(0);
  server.ticket.reset();
  return {proven(client), proven(server)};
}

template <>
std::vector<wire::AuthenticateReply> samples() {
  wire::AuthenticateReply m;
  m.client = ClientId(0x0102030405060708);
  m.epoch = 5;
  m.ticket = sample_ticket();
  m.lease_ms = 30'000;
  m.fs_time = WallTime{1'700'000'000'000'000'000};
  m.answer_slots = 64;
  m.server_proof = wire::server_proof(client_key(), nonce_from(0x50), nonce_from(0x40));
  return {m};
}

template <>
std::vector<wire::PingRequest> samples() {
  wire::PingRequest m;
  m.payload = bytes_of("there and back");
  return {m};
}

template <>
std::vector<wire::PingReply> samples() {
  wire::PingReply m;
  m.payload = bytes_of("there and back");
  m.server = ServerId(3);
  m.roles = {"meta", "io"};
  m.pid = 4711;
  m.uptime_ms = 86'400'000;
  m.software = "spate 0.1.0";
  return {m};
}

template <>
std::vector<wire::StatsRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::StatsReply> samples() {
  wire::StatsReply m;
  m.snapshot = bytes_of("a snapshot, see stored/snapshot");
  return {m};
}

template <>
std::vector<wire::ListLoadsRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::ListLoadsReply> samples() {
  wire::ClientLoad load;
  load.client = ClientId(77);
  load.uid = 1000;
  load.description = "node3:4711:solver:123456";
  load.since_ns = 5'000'000'000;
  load.kinds = {{1, 0, 20'000, 1U << 20U}, {2, 1, 30'000, 1U << 21U}, {3, 0, 40'000, 0}, {4, 0, 50'000, 0}};
  wire::ListLoadsReply m;
  m.now_ns = 9'000'000'000;
  m.clients = {load};
  m.others = {{10, 1, 60'000, 4096}, {}, {}, {}};
  m.clients_dropped = 6;
  return {{}, m};
}

template <>
std::vector<wire::ListFileLoadsRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::ListFileLoadsReply> samples() {
  wire::FileLoad load;
  load.file = Handle(0x0002000000000007);
  load.since_ns = 5'000'000'000;
  load.kinds = {{1, 0, 20'000, 1U << 20U}, {2, 1, 30'000, 1U << 21U}, {}, {}};
  wire::ListFileLoadsReply m;
  m.now_ns = 9'000'000'000;
  m.files = {load};
  m.others = {{10, 1, 60'000, 4096}, {}, {}, {}};
  m.files_dropped = 6;
  return {{}, m};
}

template <>
std::vector<wire::KeepAliveRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::KeepAliveReply> samples() {
  wire::KeepAliveReply m;
  m.fs_time = WallTime{1'700'000'000'000'000'000};
  m.ticket = sample_ticket();
  return {m};
}

template <>
std::vector<wire::EndSessionRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::Empty> samples() {
  return {{}};
}

}  // namespace spate::golden
