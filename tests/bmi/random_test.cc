// SPDX-License-Identifier: Apache-2.0
// Seeded schedules against a model: on each (direction, class, tag) the k-th receive gets the k-th message.
#include <array>
#include <cstdlib>
#include <list>
#include <set>

#include "base/random.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

struct Sent {
  std::uint64_t seq = 0;
  Bytes data;
  OpId op;
};
struct Wanted {
  Bytes room;
  OpId op;
};
// One stream of messages and the receives posted for it.
struct Stream {
  std::uint64_t tag = 0;
  MessageClass message_class = MessageClass::kControl;
  bool from_client = true;
  std::vector<std::unique_ptr<Sent>> sent;
  std::vector<std::unique_ptr<Wanted>> wanted;
};

std::size_t some_size(Random& random) {
  constexpr std::array<std::size_t, 8> kEdges{0, 1, 4095, 4096, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 65'536};
  switch (random.below(4)) {
    case 0: return kEdges[random.below(kEdges.size())];
    case 1: return random.below(200'000);
    default: return random.below(3000);
  }
}

// Cuts [0, size) at random: a list whose pieces have nothing to do with the other side's.
std::vector<Segment> cut(Random& random, MutableByteView all) {
  std::vector<Segment> out;
  while (!all.empty() && out.size() < 7) {
    const std::size_t n = random.chance(1, 3) ? all.size() : random.below(all.size()) + 1;
    out.push_back(Segment::of(all.subspan(0, n)));
    all = all.subspan(n);
  }
  if (!all.empty()) out.push_back(Segment::of(all));
  return out;
}

std::uint64_t seed_of_stream(const Stream& stream) {
  return stream.tag * 4 + (stream.message_class == MessageClass::kBulk ? 2 : 0) + (stream.from_client ? 1 : 0);
}

class Schedule {
 public:
  explicit Schedule(std::uint64_t seed) : random(seed) {
    for (std::uint64_t tag = 1; tag <= 3; ++tag) {
      for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
        for (const bool from_client : {true, false}) streams.push_back({tag, c, from_client, {}, {}});
      }
    }
  }
  Stream& some_stream() { return streams[random.below(streams.size())]; }

  SeededRandom random;
  std::vector<Stream> streams;
};

std::vector<std::uint64_t> seeds(std::uint64_t count) {
  if (const char* one = std::getenv("SPATE_SEED")) return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 1; i <= count; ++i) all.push_back(i);
  return all;
}

TEST_P(Bmi, RandomSchedulesAgreeWithTheModel) {
  for (const std::uint64_t seed : seeds(world_->traits().virtual_time ? 200 : 25)) {
    SCOPED_TRACE(testing::Message() << "SPATE_SEED=" << seed);
    Schedule schedule(seed);
    Random& random = schedule.random;
    const Pair pair = start_pair();
    const auto sender = [&](const Stream& s) -> std::pair<Peer&, Address> {
      return s.from_client ? std::pair<Peer&, Address>{*pair.client, pair.to_server} : std::pair<Peer&, Address>{*pair.server, pair.to_client};
    };
    const auto receiver = [&](const Stream& s) -> std::pair<Peer&, Address> {
      return s.from_client ? std::pair<Peer&, Address>{*pair.server, pair.to_client} : std::pair<Peer&, Address>{*pair.client, pair.to_server};
    };
    const auto post_send = [&](Stream& s) {
      auto message = std::make_unique<Sent>();
      message->seq = s.sent.size();
      message->data = pattern(seed_of_stream(s), message->seq, some_size(random));
      const std::vector<Segment> pieces = cut(random, message->data);
      auto [peer, to] = sender(s);
      message->op = send_list(peer, {to, s.tag, s.message_class}, pieces);
      s.sent.push_back(std::move(message));
    };
    const auto post_recv = [&](Stream& s) {
      auto wanted = std::make_unique<Wanted>();
      const std::size_t k = s.wanted.size();
      // Known messages get exact room, more, or (rarely) too little; unknown ones get plenty.
      const std::size_t size = k < s.sent.size() ? s.sent[k]->data.size() : 200'000;
      wanted->room.resize(random.chance(1, 20) ? size / 2 : size + random.below(2) * 100);
      const std::vector<Segment> pieces = cut(random, wanted->room);
      auto [peer, from] = receiver(s);
      wanted->op = recv_list(peer, {from, s.tag, s.message_class}, pieces);
      s.wanted.push_back(std::move(wanted));
    };
    for (int i = 0; i < 150; ++i) {
      Stream& s = schedule.some_stream();
      switch (random.below(5)) {
        case 0:
        case 1: post_send(s); break;
        case 2:
        case 3: post_recv(s); break;
        default:
          step();
          if (world_->traits().virtual_time) world_->wait({});
      }
    }
    for (Stream& s : schedule.streams) {
      while (s.wanted.size() < s.sent.size()) post_recv(s);
      while (s.sent.size() < s.wanted.size()) post_send(s);
    }
    for (Stream& s : schedule.streams) {
      for (std::size_t k = 0; k < s.sent.size(); ++k) {
        const Completion received = finish(receiver(s).first, s.wanted[k]->op);
        const std::size_t size = s.sent[k]->data.size();
        if (size > s.wanted[k]->room.size()) {
          ASSERT_EQ(received.status, Errc::kMessageTooBig) << "tag " << s.tag << " message " << k;
        } else {
          ASSERT_EQ(received.status, Errc::kOk) << "tag " << s.tag << " message " << k;
          ASSERT_EQ(received.actual_size, size) << "tag " << s.tag << " message " << k;
          ASSERT_EQ(first_difference({s.wanted[k]->room.data(), size}, seed_of_stream(s), k), std::nullopt);
        }
        const Errc sent = finish(sender(s).first, s.sent[k]->op).status;
        ASSERT_TRUE(sent == Errc::kOk || sent == Errc::kMessageTooBig);
      }
    }
    kill(*pair.client);
    kill(*pair.server);
  }
}

// With cancels and lost connections the model knows less, but: every operation ends, what is reported as whole is a whole
// message of its stream, none arrives twice, and the peers find each other again.
TEST_P(Bmi, RandomSchedulesWithLossesAndCancels) {
  for (const std::uint64_t seed : seeds(world_->traits().virtual_time ? 300 : 25)) {
    SCOPED_TRACE(testing::Message() << "SPATE_SEED=" << seed);
    SeededRandom random(seed);
    const Pair pair = start_pair();
    struct Message {
      std::uint64_t tag;
      Bytes data;
      OpId op;
      bool receive;
    };
    std::list<Message> all;  // memory stays where it is until the end
    std::array<std::uint64_t, 4> next_seq{};
    std::vector<OpId> client_ops;
    std::vector<OpId> server_ops;
    for (int i = 0; i < 120; ++i) {
      const std::uint64_t tag = random.below(next_seq.size());
      const MessageClass c = tag % 2 == 0 ? MessageClass::kControl : MessageClass::kBulk;
      switch (random.below(9)) {
        case 0:
        case 1:
        case 2: {
          // The first eight bytes say which message this is: the receiver cannot count on having got all before.
          Message& m = all.emplace_back(Message{tag, pattern(tag, next_seq[tag], 8 + some_size(random)), {}, false});
          const std::uint64_t seq = next_seq[tag]++;
          std::memcpy(m.data.data(), &seq, 8);
          m.op = send(*pair.client, {pair.to_server, tag, c}, m.data);
          client_ops.push_back(m.op);
          break;
        }
        case 3:
        case 4: {
          Message& m = all.emplace_back(Message{tag, Bytes(210'000), {}, true});
          const std::array<Segment, 1> segments{Segment::of(MutableByteView(m.data))};
          const Result<Posted> result =
              (*pair.server)->post_recv({pair.to_client, Tag{tag}, c, segments}, pair.server->context, nullptr);
          if (!result) {
            EXPECT_EQ(result.code(), Errc::kConnectionLost);  // it is away, and the next request brings it back
            all.pop_back();
            break;
          }
          m.op = posted(*pair.server, result);
          server_ops.push_back(m.op);
          break;
        }
        case 5:
          if (!client_ops.empty()) (*pair.client)->cancel(client_ops[random.below(client_ops.size())]);
          if (!server_ops.empty()) (*pair.server)->cancel(server_ops[random.below(server_ops.size())]);
          break;
        case 6:
          if (random.chance(1, 6)) (*pair.client)->disconnect(pair.to_server);
          if (random.chance(1, 6)) (*pair.server)->disconnect(pair.to_client);
          break;
        default:
          step();
          if (world_->traits().virtual_time) world_->wait({});
      }
    }
    settle();
    for (const OpId op : client_ops) (*pair.client)->cancel(op);
    for (const OpId op : server_ops) (*pair.server)->cancel(op);
    // No order here: a receive whose message was withdrawn gets another one, when those after it may have theirs.
    std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
    for (const Message& m : all) {
      const Completion c = finish(m.receive ? *pair.server : *pair.client, m.op);
      ASSERT_TRUE(c.status == Errc::kOk || c.status == Errc::kCancelled || c.status == Errc::kConnectionLost ||
                  (c.status == Errc::kUnreachable && !m.receive))  // thrown out while it came back
          << describe(c.status);
      if (!m.receive || c.status != Errc::kOk) continue;
      ASSERT_GE(c.actual_size, 8U);
      std::uint64_t seq = 0;
      std::memcpy(&seq, m.data.data(), 8);
      Bytes want = pattern(m.tag, seq, static_cast<std::size_t>(c.actual_size));
      std::memcpy(want.data(), &seq, 8);
      ASSERT_TRUE(std::equal(want.begin(), want.end(), m.data.begin())) << "tag " << m.tag;
      ASSERT_TRUE(seen.emplace(m.tag, seq).second) << "tag " << m.tag << " message " << seq << " arrived twice";
    }
    pair.server->arrived.clear();
    EXPECT_EQ(introduce(*pair.client, pair.to_server, *pair.server), pair.to_client);
    kill(*pair.client);
    kill(*pair.server);
  }
}

}  // namespace
}  // namespace spate::bmi::conformance
