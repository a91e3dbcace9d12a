// SPDX-License-Identifier: Apache-2.0
// For tests: a whole meta server in one process, with clients that have sessions. Its io servers are a table in memory.
#pragma once

#include "base/expect.h"
#include "job/deadline.h"
#include "server/meta/role.h"
#include "server/meta/testing/fs_test.h"
#include "server/meta/testing/table_io_test.h"
#include "trove/kvfault/fault_keyval.h"
#include "wire/cluster_messages.h"

namespace spate::meta {

inline constexpr std::uint8_t kRW = wire::kOpenRead | wire::kOpenWrite;

/// A client's own state.
struct TestClient {
  ClientId id;
  std::uint32_t epoch = 0;
  std::optional<SessionTicket> ticket;
  Credential who;
  std::uint64_t next = 0;         // sequence, of slot 0
  std::uint64_t incarnation = 1;  // of its connection
  std::optional<UserKey> user_key;
  std::uint64_t features = 0;
};

class RoleTest : public ::testing::Test {
 public:
  explicit RoleTest(std::uint64_t seed = 1, bool overlap = false)
      : random(seed),
        executor(clock, {overlap ? &random : nullptr, Duration(0)}),
        store(overlap ? &random : nullptr),
        faults(store, clock),
        context(faults, executor),
        io(executor) {
    (void)log::set_level("server", log::Level::off);
    options = test_options();
    options.server_key.used.fill(std::byte{5});
    open();
  }
  ~RoleTest() override {
    store.on_commit = {};
    io.release();
    close();
  }

  void open() {
    role = std::make_unique<MetaRole>(options, context, random, metrics, io);
    started = run(role->start());
    EXPECT_OK(started);
  }
  void close() {
    if (role == nullptr) return;
    (void)run(role->stop());
    role.reset();
  }
  /// Ends the server without an orderly end: nothing more reaches the store.
  void crash() {
    store.on_commit = [] { return Errc::kIoError; };
    close();
    store.on_commit = {};
  }
  void restart() {
    crash();
    open();
  }

  /// Runs the executor until `task` has ended; time passes when nothing else can happen.
  template <typename T>
  T run(job::Task<T> task) {
    std::optional<T> out;
    job::Gate gate(executor);
    job::spawn(gate, into(std::move(task), out));
    while (!out) pass_time();
    return *std::move(out);
  }
  /// Runs everything that can happen without time passing.
  void run_ready() {
    while (executor.step()) {
    }
  }
  void pass_time() {
    if (executor.step()) return;
    SPATE_CHECK(executor.next_timer() != MonoTime::never());  // otherwise nothing would ever happen again
    clock.set(executor.next_timer());
  }
  /// Lets this much time pass, and runs everything that happens in it.
  void wait(Duration span) {
    const MonoTime end = clock.now() + span;
    for (run_ready(); executor.next_timer() <= end; run_ready()) clock.set(executor.next_timer());
    clock.set(end);
    run_ready();
  }
  /// The same while `client` keeps its session alive.
  void wait_alive(TestClient& client, Duration span) {
    for (Duration passed{0}; passed < span; passed += std::chrono::seconds(5)) {
      wait(std::chrono::seconds(5));
      ASSERT_OK(keep_alive(client));
    }
  }

  // Sessions.

  Result<void> join(TestClient& client) {
    wire::AuthenticateRequest request;
    request.client = client.id;
    request.credential = client.who;
    request.ticket = client.ticket;
    wire::AuthenticateReply reply;
    rpc::Peer peer;
    peer.user_key = client.user_key;
    auto joined = run(role->service().join(peer, request, reply));
    if (!joined) return joined;
    client.id = reply.client;
    client.epoch = reply.epoch;
    client.ticket = reply.ticket;
    return {};
  }
  TestClient connect(Credential who = alice()) {
    TestClient client;
    client.who = std::move(who);
    EXPECT_OK(join(client));
    return client;
  }
  Result<void> keep_alive(TestClient& client) {
    SPATE_TRY(auto reply, asked<wire::KeepAliveReply>(client, wire::KeepAliveRequest(), no_id()));
    client.ticket = reply.ticket;
    return {};
  }

  // Requests.

  static wire::RequestId no_id() { return {}; }
  static wire::RequestId id(std::uint64_t sequence, std::uint16_t slot = 0) { return {slot, sequence}; }

  template <typename Reply, typename Request>
  job::Task<Result<Reply>> ask(TestClient client, Request request, wire::RequestId request_id,
                               Duration deadline = std::chrono::seconds(10)) {
    rpc::Call call;
    job::DeadlineScope scope(executor, clock.now() + deadline, {});
    call.stop = scope.token();
    call.header.op = Request::kOp;
    call.header.client = client.id;
    call.header.session_epoch = client.epoch;
    call.header.id = request_id;
    call.header.reply_room = 64 * 1024;
    call.peer = std::make_shared<rpc::Peer>();
    call.peer->credential = client.who;
    call.peer->incarnation = client.incarnation;
    call.peer->user_key = client.user_key;
    call.peer->features = client.features;
    call.permits = permits;
    Bytes body;
    wire::encode_body(request, body);
    SPATE_CO_TRY(auto answer, co_await role->service().operations().at(Request::kOp).handler(call, body));
    if ((client.features & wire::kFeatureGrants) == 0 || !is_change(Request::kOp))
      co_return wire::decode_body<Reply>(answer);
    std::pair<wire::Touched, wire::Granted> before;
    Reply reply;
    wire::Reader reader(answer);
    reader(before.first, before.second, reply);
    SPATE_CO_TRY(std::ignore, reader.decoder().finish(Reply::kName));
    granted = std::move(before.second);
    co_return reply;
  }
  template <typename Reply, typename Request>
  Result<Reply> asked(TestClient& client, Request request, wire::RequestId request_id) {
    return run(ask<Reply>(client, std::move(request), request_id));
  }
  template <typename Reply, typename Request>
  Result<Reply> asked(TestClient& client, Request request) {
    return asked<Reply>(client, std::move(request), id(++client.next));
  }
  /// A request that was begun; its result is looked at later.
  template <typename Reply>
  struct Pending {
    explicit Pending(job::Executor& executor) : gate(executor) {}
    std::optional<Result<Reply>> result;
    job::Gate gate;
  };
  template <typename Reply, typename Request>
  std::unique_ptr<Pending<Reply>> begin(TestClient& client, Request request, wire::RequestId request_id,
                                        Duration deadline = std::chrono::seconds(10)) {
    auto pending = std::make_unique<Pending<Reply>>(executor);
    job::spawn(pending->gate, into(ask<Reply>(client, std::move(request), request_id, deadline), pending->result));
    run_ready();
    return pending;
  }

  Result<wire::OpenReply> create(TestClient& client, std::string path, std::uint8_t flags = wire::kOpenWrite,
                                 std::uint32_t mode = 0644) {
    wire::CreateRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = mode;
    request.open_flags = flags;
    return asked<wire::OpenReply>(client, std::move(request));
  }
  static wire::OpenRequest open_request(std::string path, std::uint8_t flags) {
    wire::OpenRequest request;
    request.where = at(std::move(path));
    request.open_flags = flags;
    return request;
  }
  Result<wire::OpenReply> open_file(TestClient& client, std::string path, std::uint8_t flags) {
    return asked<wire::OpenReply>(client, open_request(std::move(path), flags));
  }
  static wire::CloseRequest close_request(Handle handle, Rights rights) {
    wire::CloseRequest request;
    request.handle = handle;
    request.rights = rights;
    return request;
  }
  Result<wire::CloseReply> close_file(TestClient& client, Handle handle, Rights rights,
                                      std::optional<wire::DataSummary> data = {}) {
    wire::CloseRequest request = close_request(handle, rights);
    request.data = data;
    return asked<wire::CloseReply>(client, std::move(request));
  }
  Result<wire::ObjectReply> unlink(TestClient& client, std::string path) {
    wire::UnlinkRequest request;
    request.where = at(std::move(path));
    return asked<wire::ObjectReply>(client, std::move(request));
  }
  static wire::TruncateRequest truncate_request(std::string path, std::uint64_t size) {
    wire::TruncateRequest request;
    request.where = at(std::move(path));
    request.size = size;
    return request;
  }
  Result<wire::ObjectReply> truncate(TestClient& client, std::string path, std::uint64_t size) {
    return asked<wire::ObjectReply>(client, truncate_request(std::move(path), size));
  }
  /// Makes everything that was done so far survive a crash of the machine.
  Result<wire::Empty> sync(TestClient& client) { return asked<wire::Empty>(client, wire::MetaSyncRequest(), no_id()); }
  Result<Attributes> stat(TestClient& client, std::string path) {
    wire::LookupRequest request;
    request.where = at(std::move(path));
    SPATE_TRY(auto reply, asked<wire::ObjectReply>(client, std::move(request), no_id()));
    return reply.attributes;
  }
  /// A write that reaches the io servers.
  ::testing::AssertionResult write(const TestClient& client, Handle handle, std::uint64_t end) {
    return io.write(handle, client.id, client.epoch, end, clock.wall());
  }
  wire::DataSummary data_of(Handle handle) { return io.files[handle].data; }
  /// Makes a closed file of this size.
  Handle make_file(TestClient& client, std::string path, std::uint64_t size) {
    const auto made = create(client, std::move(path), wire::kOpenWrite);
    EXPECT_OK(made);
    const Handle handle = made->object.attributes.handle;
    if (size > 0) EXPECT_TRUE(write(client, handle, size));
    EXPECT_OK(close_file(client, handle, Rights::kWrite, data_of(handle)));
    return handle;
  }

  // The store.

  template <typename Record>
  std::optional<Record> record(StoreKey key) {
    job::Transaction transaction = context.begin();
    const auto read = run(read_record<Record>(transaction, key, trove::ReadMode::kSnapshot));
    EXPECT_OK(read);
    return read.value();
  }
  /// The number of records of a kind.
  std::size_t records(KeyKind kind) { return all(kind).size(); }
  std::vector<trove::KeyValue> all(KeyKind kind) {
    job::Transaction transaction = context.begin();
    trove::KeyRange range = all_of(kind);
    range.limit = 1'000'000;
    range.mode = trove::ReadMode::kSnapshot;
    return run(read_all(transaction, range)).entries;
  }
  InodeRecord inode(Handle handle) { return record<InodeRecord>(inode_key(handle)).value(); }

  ManualClock clock;
  SeededRandom random;
  metrics::Registry metrics;
  job::Executor executor;
  TestStore store;
  trove::FaultKeyval faults;
  job::KeyvalContext context;
  TableIoServers io;
  MetaOptions options;
  std::unique_ptr<MetaRole> role;
  Result<void> started;
  wire::Granted granted;            // with the last reply to a change of a client with the feature `grants`
  rpc::Permits* permits = nullptr;  // those that requests take; null: requests take none

 private:
  static bool is_change(wire::Op op) {
    switch (op) {
#define SPATE_TEST_CHANGE(id, ...) case wire::Op::k##id:
      SPATE_META_CHANGES(SPATE_TEST_CHANGE)
#undef SPATE_TEST_CHANGE
      return true;
      default: return false;
    }
  }
  static job::Task<trove::KeyvalCompletion> read_all(job::Transaction& transaction, const trove::KeyRange& range) {
    auto read = co_await transaction.range(range);
    co_return read;
  }
  template <typename T>
  static job::Task<void> into(job::Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }
};

}  // namespace spate::meta
