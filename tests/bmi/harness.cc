// SPDX-License-Identifier: Apache-2.0
#include "tests/bmi/harness.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "base/expect.h"

namespace spate::bmi::conformance {
namespace {

// A guard against hangs, not a limit on speed. It is long enough for a sanitizer build on a loaded machine.
constexpr std::chrono::seconds kTimeout{60};
constexpr int kWaitMs = 5;
// Idle waits in a row after which a real network counts as settled. Too few would weaken a test, but never fail it.
constexpr int kSettledWaits = 6;
constexpr int kMostWakes = 300;
constexpr std::size_t kBatch = 16;
constexpr std::uint64_t kIntroductionTag = 0xFFFFFFFFFFFFFF01ULL;

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t word_at(std::uint64_t base, std::uint64_t index) { return mix(base + index * 0x9E3779B97F4A7C15ULL); }

std::uint64_t base_of(std::uint64_t tag, std::uint64_t seq) { return mix(tag * 31 + 7) ^ mix(seq + 0x51ED27ULL); }

}  // namespace

void fill_pattern(MutableByteView out, std::uint64_t tag, std::uint64_t seq, std::uint64_t offset) {
  const std::uint64_t base = base_of(tag, seq);
  std::size_t at = 0;
  while (at < out.size()) {
    const std::uint64_t position = offset + at;
    const std::size_t within = position % 8;
    const std::uint64_t word = word_at(base, position / 8) >> (8 * within);
    const std::size_t n = std::min<std::size_t>(8 - within, out.size() - at);
    std::memcpy(out.data() + at, &word, n);
    at += n;
  }
}

std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }

std::optional<std::uint64_t> first_difference(ByteView data, std::uint64_t tag, std::uint64_t seq) {
  std::array<std::byte, 4096> want{};
  for (std::size_t at = 0; at < data.size(); at += want.size()) {
    const std::size_t n = std::min(want.size(), data.size() - at);
    fill_pattern({want.data(), n}, tag, seq, at);
    if (std::memcmp(want.data(), data.data() + at, n) == 0) continue;
    std::size_t i = 0;
    while (want[i] == data[at + i]) ++i;
    return at + i;
  }
  return std::nullopt;
}

Bytes pattern(std::uint64_t tag, std::uint64_t seq, std::size_t size) {
  Bytes out(size);
  fill_pattern(out, tag, seq);
  return out;
}

bool World::wait(std::span<const Waiter> waiters) {
  std::vector<pollfd> fds;
  int wait_ms = kWaitMs;
  for (const Waiter& waiter : waiters) {
    if (waiter.ready_anyway) {
      wait_ms = 1;
      continue;
    }
    if (!waiter.network->prepare_to_wait(waiter.context)) return true;
    fds.push_back({waiter.network->wait_descriptor(waiter.context), POLLIN, 0});
  }
  return ::poll(fds.data(), fds.size(), wait_ms) > 0;
}

void Bmi::SetUp() {
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string_view why = exclusion(GetParam().name, test.substr(0, test.find('/')));
  if (!why.empty()) GTEST_SKIP() << why;
  world_ = GetParam().make();
}

Process& Bmi::start(bool listens, const NetworkOptions& options) {
  World::Place place = world_->start(options);
  auto peer = std::make_unique<Process>();
  peer->network = std::move(place.network);
  peer->context = (*peer)->open_context();
  if (listens) {
    const Result<std::string> url = (*peer)->listen(place.listen_url, peer->context);
    EXPECT_OK(url);
    if (url) peer->url = *url;
  }
  peers_.push_back(std::move(peer));
  return *peers_.back();
}

void Bmi::kill(Process& peer) {
  peer.network.reset();
  peer.done.clear();
  peer.arrived.clear();
}

void Bmi::restart(Process& peer, const NetworkOptions& options) {
  peer.network = world_->restart(peer.url, options);
  peer.context = peer->open_context();
  const Result<std::string> url = peer->listen(peer.url, peer.context);
  ASSERT_OK(url);
  EXPECT_EQ(*url, peer.url);
}

Address Bmi::lookup(Process& from, const std::string& url) {
  const std::array<std::string, 1> urls{url};
  const Result<Address> address = from->lookup(urls);
  EXPECT_OK(address);
  return address ? *address : Address{};
}

Address Bmi::introduce(Process& client, Address server_address, Process& server) {
  const Bytes hello = pattern(kIntroductionTag, 0, 16);
  const OpId op = send_unexpected(client, {server_address, kIntroductionTag}, hello);
  EXPECT_EQ(finish(client, op).status, Errc::kOk);
  EXPECT_TRUE(drive([&] { return !server.arrived.empty() && server.arrived.back().tag == Tag{kIntroductionTag}; }))
      << "the server was not asked";
  if (server.arrived.empty()) return {};
  const Address address = server.arrived.back().peer;
  server.arrived.pop_back();
  return address;
}

Bmi::Pair Bmi::start_pair(const NetworkOptions& options) {
  Pair pair{};
  pair.server = &start(true, options);
  pair.client = &start(false, options);
  pair.to_server = lookup(*pair.client, pair.server->url);
  pair.to_client = introduce(*pair.client, pair.to_server, *pair.server);
  return pair;
}

namespace {
Message message_of(const Post& post, SegmentList segments) {
  return {post.peer, Tag{post.tag}, post.message_class, segments, post.receiver_ready};
}
}  // namespace

OpId Bmi::posted(Process& peer, const Result<Posted>& result) {
  EXPECT_OK(result);
  if (!result) return {};
  EXPECT_TRUE(result->op);
  if (result->done) {
    EXPECT_EQ(result->completion.op, result->op);
    peer.completed += 1;
    EXPECT_TRUE(peer.done.emplace(result->op, result->completion).second) << "operation id used twice";
  }
  return result->op;
}

OpId Bmi::send_list(Process& from, const Post& post, SegmentList segments) {
  return posted(from, from->post_send(message_of(post, segments), from.context, post.user));
}

OpId Bmi::recv_list(Process& at, const Post& post, SegmentList segments) {
  return posted(at, at->post_recv(message_of(post, segments), at.context, post.user));
}

OpId Bmi::send(Process& from, const Post& post, ByteView data) {
  const std::array<Segment, 1> segments{Segment::of(data)};
  return send_list(from, post, segments);
}

OpId Bmi::recv(Process& at, const Post& post, MutableByteView room) {
  const std::array<Segment, 1> segments{Segment::of(room)};
  return recv_list(at, post, segments);
}

OpId Bmi::send_unexpected(Process& from, const Post& post, ByteView data) {
  const std::array<Segment, 1> segments{Segment::of(data)};
  return posted(from, from->post_send_unexpected(message_of(post, segments), from.context, post.user));
}

std::size_t Bmi::step() {
  std::size_t found = 0;
  std::array<Completion, kBatch> completions;
  for (const auto& peer : peers_) {
    if (!peer->network || !peer->tested) continue;
    const std::size_t n = (*peer)->test_context(peer->context, completions);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(peer->done.emplace(completions[i].op, completions[i]).second) << "completed twice";
    }
    peer->completed += n;
    found += n;
    if (!peer->takes_unexpected) continue;
    std::array<UnexpectedMessage, kBatch> messages;
    const std::size_t m = (*peer)->test_unexpected(peer->context, messages);
    for (std::size_t i = 0; i < m; ++i) peer->arrived.push_back(std::move(messages[i]));
    found += m;
  }
  return found;
}

std::vector<Waiter> Bmi::waiters() const {
  std::vector<Waiter> out;
  for (const auto& peer : peers_) {
    if (peer->network && peer->tested) out.push_back({peer->network.get(), peer->context, !peer->takes_unexpected});
  }
  return out;
}

bool Bmi::drive(const std::function<bool()>& until) {
  const auto deadline = std::chrono::steady_clock::now() + kTimeout;
  const bool virtual_time = world_->traits().virtual_time;
  int idle = 0;
  while (!until()) {
    if (step() > 0 || world_->wait(waiters())) idle = 0;
    // Virtual time: no event is left, unless testing itself causes one.
    if (virtual_time && ++idle > kSettledWaits) return false;
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

void Bmi::settle() {
  const auto deadline = std::chrono::steady_clock::now() + kTimeout;
  const bool virtual_time = world_->traits().virtual_time;
  int idle = 0;
  // The peers were woken, and nothing completed: a long message moves in many turns. A descriptor that stays readable
  // for no reason must not make this loop endless.
  int woken_in_a_row = 0;
  while (idle < kSettledWaits && woken_in_a_row < kMostWakes && std::chrono::steady_clock::now() < deadline) {
    const bool found = step() > 0;
    const bool woken = !found && world_->wait(waiters());
    woken_in_a_row = found || !woken || virtual_time ? 0 : woken_in_a_row + 1;
    if (found || (woken && virtual_time)) idle = 0;
    if (!found && !woken) ++idle;
  }
}

Completion Bmi::finish(Process& peer, OpId op) {
  if (drive([&] { return is_done(peer, op); })) return peer.done.at(op);
  ADD_FAILURE() << "operation " << op.value << " never completes";
  return {op, nullptr, Errc::kTimeout, 0};
}

void Bmi::expect_passes(const Pair& pair, std::uint64_t tag, std::size_t size, bool from_client,
                        MessageClass message_class) {
  Process& sender = from_client ? *pair.client : *pair.server;
  Process& receiver = from_client ? *pair.server : *pair.client;
  const Bytes data = pattern(tag, 0, size);
  Bytes room(size);
  const OpId in = recv(receiver, {from_client ? pair.to_client : pair.to_server, tag, message_class}, room);
  const OpId out = send(sender, {from_client ? pair.to_server : pair.to_client, tag, message_class}, data);
  const Completion received = finish(receiver, in);
  EXPECT_EQ(received.status, Errc::kOk);
  EXPECT_EQ(received.actual_size, size);
  EXPECT_EQ(first_difference(room, tag, 0), std::nullopt);
  EXPECT_EQ(finish(sender, out).status, Errc::kOk);
}

INSTANTIATE_TEST_SUITE_P(Modules, Bmi, testing::ValuesIn(subjects()),
                         [](const testing::TestParamInfo<Subject>& info) { return info.param.name; });

}  // namespace spate::bmi::conformance
