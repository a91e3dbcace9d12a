// SPDX-License-Identifier: Apache-2.0
// Fuzzer of a whole client: its servers answer what the input says: a proper answer with bytes changed, any bytes, an
// error, or nothing. Every call of the client ends in time, and none yields more than there was room for.
#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "base/check.h"
#include "bmi/sim/attach.h"
#include "client/attributes/copies.h"
#include "datatype/measure.h"
#include "dist/registry.h"
#include "log/log.h"
#include "tests/cluster/client_process.h"
#include "wire/messages.h"

namespace spate::cluster {
namespace {

constexpr std::size_t kMaxCalls = 12;
constexpr FsId kFs{0xF5};
constexpr std::uint64_t kStrip = 4096;
constexpr std::uint64_t kTable = 77;
constexpr std::uint32_t kLeaseMs = 10'000;
constexpr Handle kFile{2};
constexpr Handle kFolder{3};

/// Takes the input apart; zeros when it has ended: the servers then answer properly.
class Script {
 public:
  explicit Script(ByteView bytes)
      : bytes_(bytes), leases_(!bytes.empty() && (static_cast<unsigned>(bytes.back()) & 1U) != 0) {}
  bool ended() const { return bytes_.empty(); }
  /// What does not change while the input is taken apart: its last bit.
  bool leases() const { return leases_; }
  std::uint8_t u8() {
    if (bytes_.empty()) return 0;
    const auto v = static_cast<std::uint8_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return v;
  }
  ByteView raw(std::size_t n) {
    const ByteView part = bytes_.first(std::min(n, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

 private:
  ByteView bytes_;
  const bool leases_;
};

/// Whoever keeps copies drops them at once.
class PromptCopies final : public client::Copies {
 public:
  bool takes_names() const override { return true; }
  bool begin_attributes(Handle, MonoTime) override { return true; }
  void drop_attributes(Handle) override {}
  void drop_names() override {}
  bool when_dropped(UniqueFunction<void()>) override { return false; }
};

Attributes attributes_of(bool known) {
  Attributes a;
  a.handle = kFile;
  a.mode = 0644;
  a.size = 10'000;
  a.size_known = known;
  return a;
}

Layout layout() {
  Layout l;
  l.strip_bytes = kStrip;
  l.slots = {Slot{{target_id(ServerId(2), 0)}}, Slot{{target_id(ServerId(2), 1)}}};
  return l;
}

template <typename Request>
Result<Request> asked(ByteView body) {
  if constexpr (std::is_same_v<Request, wire::HelloRequest>) {
    SPATE_TRY(auto both, (wire::decode_body_and<Request, wire::HelloOffer>(body)));
    return std::move(both.first);
  } else if constexpr (std::is_same_v<Request, wire::AuthenticateRequest>) {
    SPATE_TRY(auto both, (wire::decode_body_and<Request, wire::AuthenticateFinish>(body)));
    return std::move(both.first);
  } else {
    return wire::decode_body<Request>(body);
  }
}

/// A proper answer to `request`.
template <typename Request, typename Reply>
Reply proper(const Request& request) {
  Reply reply;
  if constexpr (std::is_same_v<Reply, wire::HelloReply>) {
    reply.fs = kFs;
    reply.key_required = false;
  } else if constexpr (std::is_same_v<Reply, wire::AuthenticateReply>) {
    reply.client = ClientId(7);
    reply.epoch = 1;
    reply.ticket.client = ClientId(7);
    reply.lease_ms = 30'000;
    reply.answer_slots = 4;
  } else if constexpr (std::is_same_v<Reply, wire::ObjectReply>) {
    reply.attributes = attributes_of(false);
    reply.layout = layout();
  } else if constexpr (std::is_same_v<Reply, wire::LookupLeaseReply>) {
    reply.object = proper<wire::LookupRequest, wire::ObjectReply>({});
    reply.steps = {{kRootHandle, "a", kFolder, FileType::kDirectory}, {kFolder, "file", kFile, FileType::kRegular}};
    reply.granted = true;
    reply.table = kTable;
    reply.lease_ms = kLeaseMs;
  } else if constexpr (std::is_same_v<Reply, wire::LockEventsReply>) {
    reply.table = kTable;
  } else if constexpr (std::is_same_v<Reply, wire::OpenReply>) {
    reply.object = proper<wire::LookupRequest, wire::ObjectReply>({});
    reply.capability.handle = Handle(2);
    reply.capability.rights = Rights::kReadWrite;
    reply.capability.expiry = WallTime{1LL << 62U};
    reply.created = true;
  } else if constexpr (std::is_same_v<Reply, wire::ReaddirReply>) {
    reply.entries = {{"file", Handle(2), FileType::kRegular, 5, attributes_of(true), layout()}};
    reply.end = true;
  } else if constexpr (std::is_same_v<Reply, wire::IoStatfsReply>) {
    reply.targets = {{target_id(ServerId(2), 0), 100, 50, 10, 5, 1, "mem"}};
  } else if constexpr (requires { reply.datafiles[0].change_counter; }) {
    if constexpr (requires { request.where.slots; }) reply.datafiles.resize(request.where.slots.size());
    if constexpr (requires { request.slots; }) reply.datafiles.resize(request.slots.size());
    for (auto& state : reply.datafiles) state.size = 6000;
  }
  if constexpr (std::is_same_v<Reply, wire::ReadReply>) {
    const auto distribution =
        make_distribution(request.where.distribution, request.where.strip_bytes, request.where.slot_count);
    SPATE_CHECK(distribution.has_value());  // the client asks properly
    std::uint64_t total = 0;
    for (const wire::SlotRef& ref : request.where.slots) {
      reply.stream_bytes.push_back(datatype::bytes_for_slot(request.what, **distribution, ref.slot));
      total += reply.stream_bytes.back();
    }
    if (total <= request.inline_limit) reply.data.resize(total);
  }
  return reply;
}

/// What stands before the answer to a change.
Bytes event_of_change(std::uint64_t order) {
  wire::Touched touched;
  touched.known = true;
  touched.objects = {kFile, kFolder};
  touched.names = {{kFolder, "file"}};
  wire::Granted granted;
  granted.granted = true;
  granted.table = kTable;
  granted.lease_ms = kLeaseMs;
  granted.order = order;
  granted.objects.resize(2);
  granted.objects[0].object = proper<wire::LookupRequest, wire::ObjectReply>({});
  granted.objects[1].object.attributes = attributes_of(true);
  granted.objects[1].object.attributes.handle = kFolder;
  granted.objects[1].object.attributes.type = FileType::kDirectory;
  granted.objects[1].flags = wire::GrantedObject::kSearchable;
  granted.names = {{kFolder, "file", kFile, FileType::kRegular}};
  Bytes out;
  wire::encode_body(touched, out);
  wire::encode_body(granted, out);
  return out;
}

/// One server, on a node of its own.
class Responder {
 public:
  Responder(bmi::sim::Fabric& fabric, ServerId id, Script& script) : id_(id), script_(script) {
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::sim::attach(fabric, id.value));
    network_ = bmi::make_network(std::move(modules), {});
    context_ = network_->open_context();
    SPATE_CHECK(network_->listen(urls_of(id.value).front(), context_).has_value());
  }

  /// True when there was anything.
  bool turn() {
    std::array<bmi::Completion, 8> done;
    bool did = network_->test_context(context_, done) > 0;
    std::array<bmi::UnexpectedMessage, 4> messages;
    const std::size_t n = network_->test_unexpected(context_, messages);
    for (std::size_t i = 0; i < n; ++i) answer(messages[i]);
    return did || n > 0;
  }

 private:
  enum How : std::uint8_t { kProper, kPatched, kRawBody, kError, kNothing, kRawMessage, kDisconnect };

  void answer(const bmi::UnexpectedMessage& message) {
    const ByteView bytes = std::as_const(message.payload).view();
    wire::Reader reader(bytes);
    wire::RequestHeader header;
    reader(header);
    SPATE_CHECK(reader.decoder().ok());  // the client is ours
    Bytes body = proper_body(header.op, bytes.last(reader.decoder().remaining()));
    if (script_.leases() && header.id.slot != wire::RequestId::kNoSlot) {
      const Bytes event = event_of_change(++order_);
      body.insert(body.begin(), event.begin(), event.end());
    }
    // Handshakes are let pass, most of the time: behind them is the rest.
    const bool handshake = header.op == wire::Op::kHello || header.op == wire::Op::kAuthenticate;
    const std::uint8_t choice = handshake && script_.u8() % 8 != 7 ? 0 : script_.u8();
    wire::ReplyHeader head;
    head.incarnation = Incarnation(1 + choice / 128);
    head.map_version = choice / 64 % 2;
    switch (static_cast<How>(choice % 8)) {
      case kPatched: patch(body); break;
      case kRawBody: body = to_bytes(script_.raw(script_.u8())); break;
      case kError:
        head.status = errc_from_wire(script_.u8());
        body.clear();
        break;
      case kNothing: return;
      case kRawMessage: return send(message, to_bytes(script_.raw(script_.u8())), bmi::MessageClass::kControl, 0);
      case kDisconnect: return network_->disconnect(message.peer);
      default: break;
    }
    if (header.op == wire::Op::kRead && choice / 8 % 4 != 3) send_bulk(message);
    Bytes reply;
    wire::encode_body(head, reply);
    reply.insert(reply.end(), body.begin(), body.end());
    send(message, std::move(reply), bmi::MessageClass::kControl, 0);
  }

  void patch(Bytes& body) {
    const std::size_t changes = script_.u8() % 4 + 1U;
    for (std::size_t i = 0; i < changes && !body.empty(); ++i) {
      const std::size_t low = script_.u8();
      const std::size_t at = (low | static_cast<std::size_t>(script_.u8()) << 8U) % body.size();
      body[at] = static_cast<std::byte>(script_.u8());
    }
    if (script_.u8() % 8 == 7) body.resize(script_.u8());
  }

  Bytes proper_body(wire::Op wanted, ByteView in) {
    Bytes out;
    wire::for_each_operation([&]<typename Request, typename Reply>(wire::Op op) {
      if (op != wanted) return;
      const auto request = asked<Request>(in);
      SPATE_CHECK(request.has_value());  // the client is ours
      auto reply = proper<Request, Reply>(*request);
      if constexpr (std::is_same_v<Reply, wire::HelloReply>) {
        reply.server = id_;
        if (script_.leases()) reply.features = wire::kOurFeatures;
      }
      if constexpr (std::is_same_v<Reply, wire::LockEventsReply>) reply.events = recalls();
      wire::encode_body(reply, out);
      if constexpr (std::is_same_v<Reply, wire::HelloReply>) wire::encode_body(wire::HelloAnswer(), out);
    });
    return out;
  }

  std::vector<wire::LockEvent> recalls() {
    std::vector<wire::LockEvent> events(script_.u8() % 4);
    for (wire::LockEvent& event : events) {
      const std::uint8_t choice = script_.u8();
      event_number_ += choice / 64U;
      event = {event_number_, wire::LockEventType::kLeaseRecalled, choice % 4U + 1U};
    }
    return events;
  }

  void send_bulk(const bmi::UnexpectedMessage& message) {
    const std::size_t count = script_.u8() % 6;
    for (std::size_t i = 0; i < count; ++i) {
      send(message, Bytes(static_cast<std::size_t>(script_.u8()) * 64), bmi::MessageClass::kBulk,
           1 + script_.u8() % 3U);
    }
  }

  void send(const bmi::UnexpectedMessage& to, Bytes bytes, bmi::MessageClass c, std::uint64_t tag_offset) {
    const Bytes& kept = sent_.emplace_back(std::move(bytes));
    const bmi::Segment segment = bmi::Segment::of(ByteView(kept));
    bmi::Message message;
    message.peer = to.peer;
    message.tag = bmi::Tag(to.tag.value + tag_offset);
    message.message_class = c;
    message.segments = {&segment, 1};
    message.receiver_ready = true;
    std::ignore = network_->post_send(message, context_, nullptr);
  }

  const ServerId id_;
  Script& script_;
  std::unique_ptr<bmi::Network> network_;
  bmi::ContextId context_;
  std::uint64_t order_ = 0;
  std::uint64_t event_number_ = 0;
  std::deque<Bytes> sent_;  // for as long as the network may want them
};

class Run {
 public:
  explicit Run(ByteView input)
      : script_(input),
        fabric_(clock_, random_),
        meta_(fabric_, ServerId(1), script_),
        io_(fabric_, ServerId(2), script_) {
    ClusterMap map;
    map.fs = kFs;
    map.servers = {
        {ServerId(1), {urls_of(1).front()}, {true, false}, {}},
        {ServerId(2), {urls_of(2).front()}, {false, true}, {target_id(ServerId(2), 0), target_id(ServerId(2), 1)}}};
    auto options = small_client_options(map, Key{}, "fuzzed");
    options.client_key.reset();
    if (script_.leases()) {
      options.keep_attributes = true;
      options.most_kept = 16;
      options.copies = &copies_;
    }
    // No descriptor that a server may pass is of a file here.
    LentMachine machine;
    machine.disk_of = [](int) { return nullptr; };
    machine.later = [](Duration, UniqueFunction<void()>) {};
    machine.moved = [](std::uint64_t) {};
    process_.emplace(Ether{clock_, fabric_}, 100U, 5U, std::move(options), std::move(machine));
  }

  void play() {
    for (std::size_t i = 0; i < kMaxCalls && !script_.ended(); ++i) one(script_.u8());
    if (file_ != nullptr) std::ignore = drive(file_->close());
    file_.reset();
    process_->quit();
    while (!process_->ended()) turn();
  }

 private:
  client::Client& client() { return process_->client(); }
  static client::NamePath path() { return client::path_from_root("a/file"); }

  void one(std::uint8_t what) {
    switch (what % 16) {
      case 0: return keep(drive(client().open(path(), wire::kOpenRead | wire::kOpenWrite)));
      case 1: return keep(drive(client().create(path(), wire::kOpenRead | wire::kOpenWrite, {})));
      case 2: return look();
      case 3: return (void)drive(client().statfs());
      case 4: return (void)drive(client().readdir({}));
      case 5: return (void)drive(client().getxattr(path(), "user.x"));
      case 6: return (void)drive(client().rename(path(), path()));
      case 7: return (void)drive(client().truncate(path(), 100));
      case 8: return (void)drive(client().sync());
      case 9: return (void)drive(client().mkdir(path(), {}));
      default: return of_file(what);
    }
  }

  /// As a mount does.
  void look() {
    client::AttributeCache& cache = client().cluster().attributes();
    if (!client().kept_attributes(path())) std::ignore = drive(client().stat(path()));
    std::ignore = cache.copy_attributes(kFile);
    std::ignore = cache.copy_name(kFolder, "file", kFile);
  }

  void keep(Result<std::unique_ptr<client::File>> opened) {
    if (!opened) return;
    if (file_ != nullptr) std::ignore = drive(file_->close());
    file_ = *std::move(opened);
  }

  void of_file(std::uint8_t what) {
    if (file_ == nullptr) return;
    constexpr std::array<std::size_t, 4> kSizes{1, 500, 9'000, 40'000};
    memory_.assign(kSizes[what / 16U % 4], std::byte{0x77});
    const std::uint64_t offset = what / 64U * 3000;
    switch (what % 16) {
      case 10: {
        const auto n = drive(file_->read(offset, memory_));
        SPATE_CHECK(!n || *n <= memory_.size());
        return;
      }
      case 11: return (void)drive(file_->write(offset, memory_));
      case 12: return (void)drive(file_->stat());
      case 13: return (void)drive(file_->sync());
      case 14: return (void)drive(file_->punch(offset, memory_.size()));
      default: return (void)drive(file_->truncate(offset));
    }
  }

  template <typename T>
  static job::Task<void> into(job::Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }
  template <typename T>
  T drive(job::Task<T> task) {
    std::optional<T> out;
    job::spawn(process_->gate(), into(std::move(task), out));
    const MonoTime limit = clock_.now() + std::chrono::minutes(10);
    while (!out) {
      SPATE_CHECK(clock_.now() < limit);  // the call hangs
      turn();
    }
    return *std::move(out);
  }
  void turn() {
    bool did = process_->executor().step();
    did |= meta_.turn();
    did |= io_.turn();
    if (did) return;
    const MonoTime next = std::min(fabric_.next_event_time(), process_->executor().next_timer());
    SPATE_CHECK(next != MonoTime::never());  // else nothing would ever happen again
    fabric_.run_until(next);
  }

  PromptCopies copies_;
  Script script_;
  ManualClock clock_;
  SeededRandom random_{1};
  bmi::sim::Fabric fabric_;
  Responder meta_;
  Responder io_;
  std::optional<ClientProcess> process_;
  std::unique_ptr<client::File> file_;
  Bytes memory_;
};

}  // namespace
}  // namespace spate::cluster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  static const bool quiet = log::set_levels("off").has_value();
  (void)quiet;
  cluster::Run run({reinterpret_cast<const std::byte*>(data), size});
  run.play();
  return 0;
}
