// SPDX-License-Identifier: Apache-2.0
#include "rpc/loads.h"

#include "base/expect.h"
#include "base/printable.h"
#include "base/random.h"

namespace spate::rpc {
namespace {

using wire::LoadKind;

const MonoTime kBegin{std::chrono::seconds(1000)};

Peer client(std::uint64_t id, std::string description = "node:1:program") {
  Peer peer;
  peer.authenticated = true;
  peer.client = ClientId(id);
  peer.credential.uid = 1000;
  peer.description = std::move(description);
  return peer;
}

const wire::ClientLoad* find(const wire::ListLoadsReply& reply, std::uint64_t id) {
  for (const wire::ClientLoad& one : reply.clients) {
    if (one.client.value == id) return &one;
  }
  return nullptr;
}

std::uint64_t requests(const std::vector<wire::LoadCounts>& kinds) {
  std::uint64_t sum = 0;
  for (const wire::LoadCounts& one : kinds) sum += one.requests;
  return sum;
}

TEST(Loads, CountsTheRequestsOfAClientByKind) {
  Loads loads(kBegin);
  const Duration later = std::chrono::seconds(3);
  loads.note(client(7), {LoadKind::kRead, false, Duration(500), 4096}, kBegin + later);
  loads.note(client(7), {LoadKind::kRead, true, Duration(300), 0}, kBegin + 2 * later);
  loads.note(client(7), {LoadKind::kChange, false, Duration(40), 0}, kBegin + 2 * later);
  const auto reply = loads.list(kBegin + 3 * later);
  EXPECT_EQ(reply.now_ns, 9'000'000'000U);
  const wire::ClientLoad* const load = find(reply, 7);
  ASSERT_NE(load, nullptr);
  EXPECT_EQ(load->since_ns, 3'000'000'000U);
  EXPECT_EQ(load->uid, 1000U);
  EXPECT_EQ(load->description, "node:1:program");
  ASSERT_EQ(load->kinds.size(), wire::kLoadKinds);
  const wire::LoadCounts& reads = load->kinds[static_cast<std::size_t>(LoadKind::kRead)];
  EXPECT_EQ(reads.requests, 2U);
  EXPECT_EQ(reads.failed, 1U);
  EXPECT_EQ(reads.time_ns, 800U);
  EXPECT_EQ(reads.bytes, 4096U);
  EXPECT_EQ(load->kinds[static_cast<std::size_t>(LoadKind::kChange)].requests, 1U);
  EXPECT_EQ(requests(load->kinds), 3U);
}

TEST(Loads, CountsTheBytesReadOfEachFile) {
  Loads loads(kBegin, 2);
  loads.note_file(Handle(5), {LoadKind::kRead, false, Duration(500), 4096}, kBegin);
  loads.note_file(Handle(6), {LoadKind::kWrite, false, Duration(10), 1U << 20U}, kBegin);
  loads.note_file(Handle(5), {LoadKind::kRead, true, Duration(300), 0}, kBegin);
  loads.note_file(Handle(7), {LoadKind::kRead, false, Duration(1), 8192}, kBegin);  // takes the place of 5
  const auto reply = loads.list_files(kBegin + std::chrono::seconds(1));
  EXPECT_EQ(reply.now_ns, 1'000'000'000U);
  EXPECT_EQ(reply.files_dropped, 1U);
  EXPECT_EQ(reply.others[static_cast<std::size_t>(LoadKind::kRead)].requests, 2U);
  ASSERT_EQ(reply.files.size(), 2U);
  for (const wire::FileLoad& file : reply.files) {
    const bool written = file.file == Handle(6);
    const auto kind = static_cast<std::size_t>(written ? LoadKind::kWrite : LoadKind::kRead);
    EXPECT_TRUE(written || file.file == Handle(7)) << file.file.value;
    EXPECT_EQ(file.kinds[kind].bytes, written ? 1U << 20U : 8192U);
  }
  EXPECT_EQ(loads.list(kBegin).clients.size(), 0U);
}

TEST(Loads, ServersAreOneRow) {
  Loads loads(kBegin);
  for (const std::uint64_t id : {0U, 5U}) {
    Peer server = client(id, "meta server 1");
    server.kind = wire::PeerKind::kServer;
    loads.note(server, {}, kBegin);
  }
  const auto reply = loads.list(kBegin);
  ASSERT_EQ(reply.clients.size(), 1U);
  EXPECT_EQ(reply.clients[0].kind, wire::PeerKind::kServer);
  EXPECT_EQ(reply.clients[0].description, "servers");
  EXPECT_EQ(requests(reply.clients[0].kinds), 2U);
}

/// This holds however many other clients come and go, and in whatever order.
TEST(Loads, AClientAboveItsShareIsAlwaysListed) {
  constexpr std::size_t kMost = 8;
  constexpr std::uint64_t kRequests = 20'000;
  Loads loads(kBegin, kMost);
  SeededRandom random(17);
  MonoTime now = kBegin;
  std::uint64_t of_the_heavy = 0;
  for (std::uint64_t i = 0; i < kRequests; ++i) {
    now = now + Duration(static_cast<std::int64_t>(random.below(10'000'000)));
    const bool heavy = random.chance(1, 4);
    if (heavy) ++of_the_heavy;
    loads.note(client(heavy ? 1 : 2 + random.below(5000)), {LoadKind::kLook, false, Duration(1), 0}, now);
    if (i < 100) continue;
    const auto reply = loads.list(now);
    ASSERT_LE(reply.clients.size(), kMost);
    ASSERT_NE(find(reply, 1), nullptr) << "after " << i;
  }
  const auto reply = loads.list(now);
  std::uint64_t all = requests(reply.others);
  for (const wire::ClientLoad& one : reply.clients) all += requests(one.kinds);
  EXPECT_EQ(all, kRequests);  // the requests of a replaced client are among the others
  EXPECT_GT(requests(find(reply, 1)->kinds), of_the_heavy - 200);
  EXPECT_GT(reply.clients_dropped, 1000U);
}

TEST(Loads, AClientThatWasBusyLongAgoMakesRoom) {
  Loads loads(kBegin, 2);
  loads.note(client(1), {LoadKind::kWrite, false, Duration(1), 1U << 30U}, kBegin);
  const auto is_kept = [&](MonoTime now) {
    for (std::uint64_t i = 0; i < 1000; ++i) loads.note(client(2 + i % 3), {}, now);
    return find(loads.list(now), 1) != nullptr;
  };
  EXPECT_TRUE(is_kept(kBegin + std::chrono::seconds(1)));
  EXPECT_FALSE(is_kept(kBegin + 30 * Loads::kHalfLife));
  EXPECT_FALSE(is_kept(kBegin + 100'000 * Loads::kHalfLife));
}

TEST(Loads, ADescriptionIsPrintableAndShort) {
  Loads loads(kBegin);
  std::string umlauts;
  while (umlauts.size() < 8000) umlauts += "ü";
  const std::string escape = "\x1b]0;title\x07\n";
  std::uint64_t id = 0;
  for (const std::string& text : {escape, std::string(8000, '\x1b'), umlauts, "a" + umlauts, std::string("\xff\0", 2)})
    loads.note(client(++id, text), {}, kBegin);
  const auto reply = loads.list(kBegin);
  EXPECT_EQ(find(reply, 1)->description, "\\x1b]0;title\\x07\\x0a");
  for (const wire::ClientLoad& one : reply.clients) {
    EXPECT_LE(one.description.size(), wire::kMaxLoadDescription);
    EXPECT_EQ(escape_controls(one.description), one.description);
  }
}

TEST(Loads, RenewalsOfASessionAreNoLoad) {
  for (const wire::Op op : {wire::Op::kKeepAlive, wire::Op::kSessionEvents, wire::Op::kListLoads, wire::Op::kPing})
    EXPECT_EQ(load_kind(op), std::nullopt) << op_name(op);
  EXPECT_EQ(load_kind(wire::Op::kRead), LoadKind::kRead);
  EXPECT_EQ(load_kind(wire::Op::kRename), LoadKind::kChange);
  EXPECT_EQ(load_kind(wire::Op::kLookup), LoadKind::kLook);
}

}  // namespace
}  // namespace spate::rpc
