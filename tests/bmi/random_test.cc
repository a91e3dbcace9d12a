// SPDX-License-Identifier: Apache-2.0
// Schedules from a seed, compared with a model: on each (direction, class, tag) the k-th receive gets the k-th message.
#include "base/random.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <list>
#include <set>

#include "base/expect.h"
#include "base/expect_bytes.h"
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

// Cuts [0, size) at random places, which are unrelated to those of the other side.
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

class RandomSchedule : public Bmi {
 protected:
  struct Way {
    Process& peer;
    Address other;
  };
  Way sender(const Stream& s) {
    return s.from_client ? Way{*pair_.client, pair_.to_server} : Way{*pair_.server, pair_.to_client};
  }
  Way receiver(const Stream& s) {
    return s.from_client ? Way{*pair_.server, pair_.to_client} : Way{*pair_.client, pair_.to_server};
  }
  void begin() { pair_ = start_pair(); }
  void end() {
    kill(*pair_.client);
    kill(*pair_.server);
  }
  /// Makes a little progress.
  void breathe() {
    step();
    if (world_->traits().virtual_time) world_->wait({});
  }
  std::uint64_t runs(std::uint64_t in_virtual_time) const {
    if (world_->traits().virtual_time) return in_virtual_time;
    return thorough() ? 25 : 12;
  }

  // Steps that are compared with the model.
  void post_send(Random& random, Stream& s);
  void post_recv(Random& random, Stream& s);
  void check(const Stream& s, std::size_t k);

  // Steps with losses and cancels.
  struct Item {
    std::uint64_t tag;
    Bytes data;
    OpId op;
    bool receive;
  };
  static MessageClass class_of(std::uint64_t tag) {
    return tag % 2 == 0 ? MessageClass::kControl : MessageClass::kBulk;
  }
  void send_numbered(Random& random, std::uint64_t tag);
  void recv_if_there(std::uint64_t tag);
  void cancel_some(Random& random);
  void check(const Item& item);

  Pair pair_{};
  std::list<Item> items_;  // a list, since its elements' memory must stay in place
  std::array<std::uint64_t, 4> next_seq_{};
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;
};

void RandomSchedule::post_send(Random& random, Stream& s) {
  auto message = std::make_unique<Sent>();
  message->seq = s.sent.size();
  message->data = pattern(seed_of_stream(s), message->seq, some_size(random));
  const std::vector<Segment> pieces = cut(random, message->data);
  message->op = send_list(sender(s).peer, {sender(s).other, s.tag, s.message_class}, pieces);
  s.sent.push_back(std::move(message));
}

void RandomSchedule::post_recv(Random& random, Stream& s) {
  auto wanted = std::make_unique<Wanted>();
  const std::size_t k = s.wanted.size();
  // If the message is known, its receive has the exact size, more, or (rarely) too little. If not, it has plenty.
  const std::size_t size = k < s.sent.size() ? s.sent[k]->data.size() : 200'000;
  wanted->room.resize(random.chance(1, 20) ? size / 2 : size + random.below(2) * 100);
  const std::vector<Segment> pieces = cut(random, wanted->room);
  wanted->op = recv_list(receiver(s).peer, {receiver(s).other, s.tag, s.message_class}, pieces);
  s.wanted.push_back(std::move(wanted));
}

void RandomSchedule::check(const Stream& s, std::size_t k) {
  SCOPED_TRACE(testing::Message() << "tag " << s.tag << " message " << k);
  const Completion received = finish(receiver(s).peer, s.wanted[k]->op);
  const std::size_t size = s.sent[k]->data.size();
  if (size > s.wanted[k]->room.size()) {
    EXPECT_EQ(received.status, Errc::kMessageTooBig);
  } else {
    EXPECT_EQ(received.status, Errc::kOk);
    EXPECT_EQ(received.actual_size, size);
    EXPECT_EQ(first_difference({s.wanted[k]->room.data(), size}, seed_of_stream(s), k), std::nullopt);
  }
  const Errc sent = finish(sender(s).peer, s.sent[k]->op).status;
  EXPECT_THAT(sent, ::testing::AnyOf(Errc::kOk, Errc::kMessageTooBig));
}

TEST_P(RandomSchedule, AgreesWithTheModel) {
  for (const std::uint64_t seed : seeds(runs(200))) {
    SCOPED_TRACE(testing::Message() << "SPATE_SEED=" << seed);
    Schedule schedule(seed);
    begin();
    for (int i = 0; i < 150; ++i) {
      Stream& s = schedule.some_stream();
      const std::uint64_t choice = schedule.random.below(5);
      if (choice < 2) post_send(schedule.random, s);
      if (choice == 2 || choice == 3) post_recv(schedule.random, s);
      if (choice == 4) breathe();
    }
    for (Stream& s : schedule.streams) {
      while (s.wanted.size() < s.sent.size()) post_recv(schedule.random, s);
      while (s.sent.size() < s.wanted.size()) post_send(schedule.random, s);
    }
    for (const Stream& s : schedule.streams) {
      for (std::size_t k = 0; k < s.sent.size() && !HasFailure(); ++k) check(s, k);
    }
    end();
    if (HasFailure()) return;
  }
}

// The first eight bytes tell which message this is, since the receiver may have missed earlier ones.
void RandomSchedule::send_numbered(Random& random, std::uint64_t tag) {
  const std::uint64_t seq = next_seq_.at(tag)++;
  Item& item = items_.emplace_back(Item{tag, pattern(tag, seq, 8 + some_size(random)), {}, false});
  std::memcpy(item.data.data(), &seq, 8);
  item.op = send(*pair_.client, {pair_.to_server, tag, class_of(tag)}, item.data);
}

void RandomSchedule::recv_if_there(std::uint64_t tag) {
  Item& item = items_.emplace_back(Item{tag, Bytes(210'000), {}, true});
  const std::array<Segment, 1> segments{Segment::of(MutableByteView(item.data))};
  const Result<Posted> result = pair_.server->network->post_recv({pair_.to_client, Tag{tag}, class_of(tag), segments},
                                                                 pair_.server->context, nullptr);
  if (result) {
    item.op = posted(*pair_.server, result);
    return;
  }
  EXPECT_ERRC(result, Errc::kConnectionLost);  // the peer is away, and its next post brings it back
  items_.pop_back();
}

void RandomSchedule::cancel_some(Random& random) {
  for (const Item& item : items_) {
    if (random.chance(1, items_.size())) (*(item.receive ? pair_.server : pair_.client))->cancel(item.op);
  }
}

void RandomSchedule::check(const Item& item) {
  const Completion c = finish(item.receive ? *pair_.server : *pair_.client, item.op);
  const bool thrown_out_on_the_way_back = c.status == Errc::kUnreachable && !item.receive;
  if (!thrown_out_on_the_way_back)
    EXPECT_THAT(c.status, ::testing::AnyOf(Errc::kOk, Errc::kCancelled, Errc::kConnectionLost));
  if (!item.receive || c.status != Errc::kOk) return;
  ASSERT_GE(c.actual_size, 8U);
  std::uint64_t seq = 0;
  std::memcpy(&seq, item.data.data(), 8);
  Bytes want = pattern(item.tag, seq, static_cast<std::size_t>(c.actual_size));
  std::memcpy(want.data(), &seq, 8);
  EXPECT_BYTES(ByteView(item.data).first(want.size()), want) << "tag " << item.tag;
  EXPECT_TRUE(seen_.emplace(item.tag, seq).second) << "tag " << item.tag << " message " << seq << " arrived twice";
}

// With cancels and lost connections the model knows less. Still every operation ends, a message that is reported whole
// is a whole message of its stream, none arrives twice, and the peers find each other again. Order is not checked: a
// receive whose message was withdrawn gets another one, and later receives may have their messages by then.
TEST_P(RandomSchedule, SurvivesLossesAndCancels) {
  for (const std::uint64_t seed : seeds(runs(300))) {
    SCOPED_TRACE(testing::Message() << "SPATE_SEED=" << seed);
    SeededRandom random(seed);
    begin();
    for (int i = 0; i < 120; ++i) {
      const std::uint64_t tag = random.below(next_seq_.size());
      const std::uint64_t choice = random.below(9);
      if (choice < 3) send_numbered(random, tag);
      if (choice == 3 || choice == 4) recv_if_there(tag);
      if (choice == 5) cancel_some(random);
      if (choice == 6 && random.chance(1, 6)) (*pair_.client)->disconnect(pair_.to_server);
      if (choice == 6 && random.chance(1, 6)) (*pair_.server)->disconnect(pair_.to_client);
      if (choice > 6) breathe();
    }
    settle();
    for (const Item& item : items_) (*(item.receive ? pair_.server : pair_.client))->cancel(item.op);
    for (const Item& item : items_) check(item);
    pair_.server->arrived.clear();
    EXPECT_EQ(introduce(*pair_.client, pair_.to_server, *pair_.server), pair_.to_client);
    end();
    items_.clear();
    seen_.clear();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, RandomSchedule, testing::ValuesIn(subjects()),
                         [](const testing::TestParamInfo<Subject>& info) { return info.param.name; });

}  // namespace
}  // namespace spate::bmi::conformance
