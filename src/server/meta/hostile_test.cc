// SPDX-License-Identifier: Apache-2.0
// The meta server answers whatever a client sends: garbage and absurd requests get errors, and the store stays
// consistent.
#include <array>

#include "base/expect.h"
#include "job/deadline.h"
#include "server/meta/testing/audit_test.h"
#include "wire/batch_messages.h"
#include "wire/cluster_messages.h"
#include "wire/queue_messages.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;

constexpr std::size_t kRoundsPerOperation = 300;

class MetaHostile : public RoleTest {
 protected:
  MetaHostile() {
    wire::MkdirRequest mkdir;
    mkdir.where = at("a");
    mkdir.attributes.mode = 0777;
    EXPECT_OK(asked<wire::ObjectReply>(client, mkdir));
    file = make_file(client, "b", 10);
  }

  /// The whole body of an answer, or its error.
  Result<Bytes> send(wire::Op op, ByteView body) {
    rpc::Call call;
    job::DeadlineScope scope(executor, clock.now() + seconds(10), {});
    call.stop = scope.token();
    call.header.op = op;
    call.header.client = client.id;
    call.header.session_epoch = client.epoch;
    call.header.id = id(++client.next);
    call.header.reply_room = static_cast<std::uint32_t>(random.below(128 * 1024));
    call.peer = std::make_shared<rpc::Peer>();
    call.peer->credential = client.who;
    call.peer->features = wire::kFeatureDelegates;
    return run(role->service().operations().at(op).handler(call, body));
  }
  /// All operations that do not end the session of the caller.
  std::vector<wire::Op> operations() {
    std::vector<wire::Op> ops;
    for (const auto& [op, row] : role->service().operations()) {
      if (op != wire::Op::kEndSession && row.access != rpc::Access::kServersOnly) ops.push_back(op);
    }
    return ops;
  }
  void expect_sound() {
    wait(seconds(1));
    ASSERT_OK(join(client));
    ASSERT_OK(keep_alive(client));
    Audit(*this).check();
  }

  TestClient client = connect();
  Handle file;
};

TEST_F(MetaHostile, GarbageIsAProtocolError) {
  std::size_t refused = 0;
  for (const wire::Op op : operations()) {
    for (std::size_t round = 0; round < kRoundsPerOperation; ++round) {
      Bytes body(random.below(200));
      for (std::byte& byte : body) byte = static_cast<std::byte>(random.next());
      refused += send(op, body).code() == Errc::kProtocol ? 1 : 0;
    }
  }
  EXPECT_GT(refused, operations().size() * kRoundsPerOperation * 8 / 10);
  expect_sound();
}

/// Fills every field of a message with values that a careless or malicious client might send.
class Scribbler {
 public:
  Scribbler(Random& random, std::vector<std::uint64_t> numbers) : random_(random), numbers_(std::move(numbers)) {}

  template <typename... T>
  void operator()(T&... fields) {
    (set(fields), ...);
  }
  template <typename T>
  T made() {
    T message;
    message.fields(*this);
    return message;
  }

 private:
  std::uint64_t number() {
    if (random_.chance(1, 8)) return random_.next();
    return numbers_[random_.below(numbers_.size())];
  }
  void set(bool& field) { field = random_.chance(1, 2); }
  void set(std::string& field) {
    static const std::string names[] = {"a",
                                        "b",
                                        "",
                                        "/",
                                        "..",
                                        "a/b",
                                        "b/",
                                        std::string(255, 'n'),
                                        std::string("\0", 1),
                                        std::string(5000, '/'),
                                        "user.x",
                                        "user.spate.strip_count",
                                        "a/../b",
                                        "c"};
    field = names[random_.below(std::size(names))];
  }
  void set(Bytes& field) {
    static const std::size_t sizes[] = {0, 1, 7, 65536, 70000};
    field.assign(sizes[random_.below(std::size(sizes))], std::byte{'7'});
  }
  template <typename T>
    requires std::is_integral_v<T>
  void set(T& field) {
    field = static_cast<T>(number());
  }
  template <typename T>
    requires std::is_enum_v<T>
  void set(T& field) {
    field = static_cast<T>(number() % 9);
  }
  template <typename T>
  void set(std::optional<T>& field) {
    field.reset();
    if (random_.chance(1, 2)) set(field.emplace());
  }
  template <typename T>
  void set(std::vector<T>& field) {
    field.resize(random_.below(4));
    for (T& item : field) set(item);
  }
  template <typename T>
    requires requires(T& t) { t.value; }
  void set(T& field) {
    set(field.value);
  }
  void set(DistributionSpec& field) { (*this)(field.kind, field.parameters); }
  void set(WallTime& field) { field.ns = static_cast<std::int64_t>(number()); }
  void set(Credential& field) { (*this)(field.uid, field.gid, field.groups); }
  void set(SessionTicket& field) { (*this)(field.client, field.epoch, field.uid, field.gid, field.expiry, field.mac); }
  template <std::size_t N>
  void set(std::array<std::byte, N>& field) {
    for (std::byte& byte : field) byte = static_cast<std::byte>(random_.next());
  }
  template <typename Request, typename Change>
  void fill(Change& change) {
    change.op = Request::kOp;
    wire::encode_body(made<Request>(), change.body);
  }
  void set(wire::BatchedChange& field) {
    switch (random_.below(10)) {
      case 0: return fill<wire::SetattrRequest>(field);
      case 1: return fill<wire::CreateRequest>(field);
      case 2: return fill<wire::MkdirRequest>(field);
      case 3: return fill<wire::SymlinkRequest>(field);
      case 4: return fill<wire::LinkRequest>(field);
      case 5: return fill<wire::UnlinkRequest>(field);
      case 6: return fill<wire::RmdirRequest>(field);
      case 7: return fill<wire::CloseRequest>(field);
      default: return (*this)(field.op, field.body);
    }
  }
  void set(wire::QueuedChange& field) {
    (*this)(field.at, field.handle);
    switch (random_.below(7)) {
      case 0: return fill<wire::SetattrRequest>(field);
      case 1: return fill<wire::CreateRequest>(field);
      case 2: return fill<wire::MkdirRequest>(field);
      case 3: return fill<wire::SymlinkRequest>(field);
      case 4: return fill<wire::CloseRequest>(field);
      case 5: return fill<wire::UnlinkRequest>(field);
      default: return (*this)(field.op, field.body);
    }
  }
  template <typename T>
    requires requires(T& t, Scribbler& s) { t.fields(s); }
  void set(T& field) {
    field.fields(*this);
  }

  Random& random_;
  std::vector<std::uint64_t> numbers_;
};

template <typename... Requests>
struct RequestList {};
using AllRequests =
    RequestList<wire::LookupRequest, wire::AccessRequest, wire::GetattrRequest, wire::ReaddirRequest,
                wire::GetxattrRequest, wire::ListxattrRequest, wire::MetaStatfsRequest, wire::MetaSyncRequest,
                wire::ClusterMapRequest, wire::DataGroupsRequest, wire::SetattrRequest, wire::CreateRequest,
                wire::OpenRequest, wire::CloseRequest, wire::CloseWritersRequest, wire::TruncateRequest,
                wire::MkdirRequest, wire::SymlinkRequest, wire::LinkRequest, wire::UnlinkRequest, wire::RmdirRequest,
                wire::RenameRequest, wire::SetxattrRequest, wire::RemovexattrRequest, wire::KeepAliveRequest,
                wire::LockRequest, wire::LockTestRequest, wire::LockCancelRequest, wire::SessionEventsRequest,
                wire::LockReclaimRequest, wire::LookupLeaseRequest, wire::ListLeaseRequest, wire::ChangeBatchRequest,
                wire::RevokeKeysRequest, wire::ReserveHandlesRequest, wire::QueuedChangesRequest>;

TEST_F(MetaHostile, WellFormedNonsenseHarmsNobody) {
  Scribbler scribbler(random, {0, 1, 2, 3, 7, 0777, 07777, 010000, file.value, client.id.value, 4096, 1U << 20U,
                               UINT16_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, 1ULL << 48U, kMaxFileBytes + 1});
  std::map<Errc, std::size_t> codes;
  const auto send_one = [&]<typename Request>(RequestList<Request>) {
    Bytes body;
    wire::encode_body(scribbler.made<Request>(), body);
    ++codes[send(Request::kOp, body).code()];
  };
  const auto send_each = [&]<typename... Requests>(RequestList<Requests...>) {
    (send_one(RequestList<Requests>()), ...);
    return sizeof...(Requests);
  };
  std::size_t kinds = 0;
  for (std::size_t round = 0; round < kRoundsPerOperation; ++round) kinds = send_each(AllRequests());
  EXPECT_EQ(kinds, operations().size());  // a new operation belongs in the list above
  EXPECT_GT(codes[Errc::kOk], 500U);
  EXPECT_GT(codes[Errc::kInvalidArgument], 100U);
  EXPECT_GT(codes[Errc::kNotFound], 50U);
  // Only reserve_handles is busy: the session has two ranges.
  for (const Errc ours : {Errc::kCorrupt, Errc::kUnknown, Errc::kConflict}) {
    EXPECT_EQ(codes[ours], 0U) << name(ours);
  }
  expect_sound();
  restart();
  EXPECT_OK(started);
  expect_sound();
}

/// Correct requests with one byte changed.
TEST_F(MetaHostile, FlippedBytesHarmNobody) {
  Scribbler scribbler(random, {0, 1, 2, file.value, 0644});
  const auto send_flipped = [&]<typename Request>(RequestList<Request>) {
    Bytes body;
    wire::encode_body(scribbler.made<Request>(), body);
    for (std::uint64_t flips = 1 + random.below(3); flips > 0 && !body.empty(); --flips) {
      body[random.below(body.size())] ^= static_cast<std::byte>(1U << random.below(8));
    }
    if (random.chance(1, 4)) body.resize(random.below(body.size() + 1));
    std::ignore = send(Request::kOp, body);
  };
  const auto send_each = [&]<typename... Requests>(RequestList<Requests...>) {
    (send_flipped(RequestList<Requests>()), ...);
  };
  for (std::size_t round = 0; round < kRoundsPerOperation; ++round) send_each(AllRequests());
  expect_sound();
}

TEST_F(MetaHostile, JoiningWithNonsenseIsRefused) {
  Scribbler scribbler(random, {0, 1, 2, client.id.value, UINT32_MAX, UINT64_MAX});
  const std::size_t before = records(KeyKind::kSession);
  std::size_t joined = 0;
  for (std::size_t round = 0; round < kRoundsPerOperation; ++round) {
    const auto request = scribbler.made<wire::AuthenticateRequest>();
    rpc::Peer peer;
    wire::AuthenticateReply reply;
    const bool served = request.kind == wire::PeerKind::kServer;
    if (run(role->service().join(peer, request, reply)) && !served) ++joined;
  }
  EXPECT_LE(records(KeyKind::kSession), before + joined);
  expect_sound();
}

}  // namespace
}  // namespace spate::meta
