// SPDX-License-Identifier: Apache-2.0
#include "tests/io/client.h"

#include <algorithm>
#include <deque>

#include "datatype/measure.h"
#include "dist/registry.h"

namespace spate::io::testing {
namespace {

/// The receives or the sends of a request's bulk messages.
class BulkMessages final : public rpc::Bulk {
 public:
  BulkMessages(job::NetworkContext& context, std::vector<Bytes>& streams, std::uint32_t unit_bytes, bool send,
               Sending sending)
      : context_(context), streams_(streams), unit_bytes_(unit_bytes), send_(send), sending_(sending) {}

  void post(bmi::Address peer, bmi::Tag reply_tag, const std::shared_ptr<wire::BulkSeals>& /*seals*/) override {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const MutableByteView stream(streams_[i]);
      std::size_t count = 0;
      for (std::uint64_t at = 0; at < stream.size() && count < sending_.messages; at += unit_bytes_, ++count) {
        std::uint64_t size = std::min<std::uint64_t>(unit_bytes_, stream.size() - at);
        if (count + 1 == sending_.messages) size -= sending_.cut_bytes;
        const bmi::Segment segment = bmi::Segment::of(stream.subspan(at, size));
        bmi::Message message;
        message.peer = peer;
        message.tag = bmi::Tag(reply_tag.value + 1 + i);
        message.message_class = bmi::MessageClass::kBulk;
        message.segments = {&segment, 1};
        Unit& unit = *units_.emplace_back(std::make_unique<Unit>(context_));
        unit.end = at + size;
        unit.stream = i;
        send_ ? unit.op.post_send(message) : unit.op.post_recv(message);
      }
    }
  }
  job::Task<void> abandon() override {
    for (auto& unit : units_) unit->op.cancel();
    for (auto& unit : units_) std::ignore = co_await unit->op.wait();
    units_.clear();
  }
  /// Waits for the messages that carry the first `bytes` of each stream, and cancels the others.
  job::Task<Result<void>> finish(std::vector<std::uint64_t> bytes) {
    Result<void> result;
    std::vector<std::uint64_t> came(streams_.size(), 0);
    for (auto& unit : units_) {
      const bool wanted = came[unit->stream] < bytes[unit->stream];
      if (!wanted) unit->op.cancel();
      const auto got = co_await unit->op.wait();
      if (!wanted) continue;
      if (!got) {
        result = got.error();
        continue;
      }
      came[unit->stream] += *got;
    }
    units_.clear();
    if (result && came != bytes) result = Errc::kProtocol;
    co_return result;
  }

 private:
  struct Unit {
    explicit Unit(job::NetworkContext& context) : op(context) {}
    job::NetworkOp op;
    std::size_t stream = 0;
    std::uint64_t end = 0;
  };
  job::NetworkContext& context_;
  std::vector<Bytes>& streams_;
  std::uint32_t unit_bytes_;
  bool send_;
  Sending sending_;
  std::deque<std::unique_ptr<Unit>> units_;
};

}  // namespace

Client::Client(World& world, ClientOptions options)
    : world_(world),
      options_(options),
      node_(world.last_node() + 1),
      random_(options.client.value * 1000 + node_),
      network_(world.make_network()),
      context_(std::make_unique<job::NetworkContext>(*network_, world.executor())) {
  const bool server = options_.kind == wire::PeerKind::kServer;
  identity_.kind = options_.kind;
  identity_.fs = kFs;
  identity_.key = server ? World::server_key() : World::client_key();
  identity_.description = "test";
  if (!server) {
    identity_.client = options_.client;
    identity_.epoch = options_.epoch;
    SessionTicket ticket;
    ticket.client = options_.client;
    ticket.epoch = options_.epoch;
    ticket.expiry.ns = world.clock().wall().ns + Duration(std::chrono::hours(24)).count();
    ticket.mac = sign(World::server_key(), kFs, ticket);
    identity_.ticket = ticket;
  }
  channel_ = another_channel();
}

Client::~Client() = default;

std::unique_ptr<rpc::Channel> Client::another_channel() {
  rpc::ChannelOptions options;
  options.urls = {world_.url()};
  options.server = ServerId(1);
  return std::make_unique<rpc::Channel>(options, *context_, identity_, random_);
}

rpc::CallOptions Client::options_for(const Capability* capability) {
  rpc::CallOptions options;
  options.deadline = world_.executor().now() + deadline_;
  options.capability = capability;
  return options;
}

Capability Client::capability(Handle handle, Rights rights) const {
  Capability capability;
  capability.handle = handle;
  capability.rights = rights;
  capability.client = options_.client;
  capability.session_epoch = options_.epoch;
  capability.expiry.ns = world_.clock().wall().ns + Duration(std::chrono::hours(1)).count();
  sign_again(capability);
  return capability;
}

job::Task<Result<ReadOutcome>> Client::read(wire::ReadRequest request, Capability capability) {
  const auto distribution = distribution_of(request.where);
  ReadOutcome outcome;
  std::uint64_t total = 0;
  for (const wire::SlotRef& ref : request.where.slots) {
    const std::uint64_t size = datatype::bytes_for_slot(request.what, *distribution, ref.slot);
    outcome.streams.emplace_back(size, std::byte{0xEE});
    total += size;
  }
  const bool in_reply = total <= request.inline_limit;
  rpc::CallOptions options = options_for(&capability);
  BulkMessages bulk(*context_, outcome.streams, request.unit_bytes, false, {});
  if (in_reply) {
    options.reply_room += static_cast<std::uint32_t>(total);
  } else {
    options.bulk = &bulk;
  }
  SPATE_CO_TRY(outcome.reply, co_await channel().call<wire::ReadReply>(request, options));
  if (outcome.reply.stream_bytes.size() != outcome.streams.size()) co_return Errc::kProtocol;
  if (in_reply) {
    ByteView data = outcome.reply.data;
    for (std::size_t i = 0; i < outcome.streams.size(); ++i) {
      const std::uint64_t size = outcome.reply.stream_bytes[i];
      if (size > data.size()) co_return Errc::kProtocol;
      outcome.streams[i] = to_bytes(data.first(size));
      data = data.subspan(size);
    }
    if (!data.empty()) co_return Errc::kProtocol;
  } else {
    SPATE_CO_TRY(std::ignore, co_await bulk.finish(outcome.reply.stream_bytes));
    for (std::size_t i = 0; i < outcome.streams.size(); ++i) outcome.streams[i].resize(outcome.reply.stream_bytes[i]);
  }
  co_return outcome;
}

job::Task<Result<wire::WriteReply>> Client::write(wire::WriteRequest request, std::vector<Bytes> streams,
                                                  Capability capability, Sending sending) {
  rpc::CallOptions options = options_for(&capability);
  BulkMessages bulk(*context_, streams, request.unit_bytes, true, sending);
  std::vector<std::uint64_t> sizes;
  for (const Bytes& stream : streams) {
    sizes.push_back(stream.size());
    if (request.has_inline_data) request.data.insert(request.data.end(), stream.begin(), stream.end());
  }
  if (!request.has_inline_data) options.bulk = &bulk;
  auto reply = co_await channel().call<wire::WriteReply>(request, options);
  if (reply && !request.has_inline_data) {
    SPATE_CO_TRY(std::ignore, co_await bulk.finish(std::move(sizes)));
  } else {
    co_await bulk.abandon();
  }
  co_return reply;
}

wire::SlotSet slot_set(Handle handle, std::uint32_t slot_count, std::uint64_t strip_bytes) {
  wire::SlotSet where;
  where.handle = handle;
  where.strip_bytes = strip_bytes;
  where.slot_count = slot_count;
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) where.slots.push_back({slot, World::target(slot % 2)});
  return where;
}

std::unique_ptr<const Distribution> distribution_of(const wire::SlotSet& where) {
  return *make_distribution(where.distribution, where.strip_bytes, where.slot_count);
}

wire::ReadRequest read_request(const wire::SlotSet& where, datatype::Description what) {
  wire::ReadRequest request;
  request.where = where;
  request.what = std::move(what);
  request.unit_bytes = 8192;
  return request;
}

wire::WriteRequest write_request(const wire::SlotSet& where, datatype::Description what) {
  wire::WriteRequest request;
  request.where = where;
  request.what = std::move(what);
  request.unit_bytes = 8192;
  request.fs_time = WallTime{1'000'000'000'000'000'000};
  return request;
}

Bytes pattern(std::uint64_t seed, std::uint64_t size) {
  Bytes bytes(size);
  SeededRandom random(seed);
  random.fill(bytes);
  return bytes;
}

}  // namespace spate::io::testing
