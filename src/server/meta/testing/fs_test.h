// SPDX-License-Identifier: Apache-2.0
// For tests: a meta server's name space in one process, called through its operation table.
#pragma once

#include <optional>
#include <set>

#include "base/expect.h"
#include "log/log.h"
#include "server/meta/core/answers.h"
#include "server/meta/meta_service.h"
#include "server/meta/testing/parts_test.h"
#include "server/meta/testing/store_test.h"
#include "wire/cluster_messages.h"
#include "wire/xattr_messages.h"

namespace spate::meta {

constexpr std::uint32_t kAlice = 1000;
constexpr std::uint32_t kBob = 1001;
constexpr std::uint32_t kStaff = 50;  // the group that alice and bob share
constexpr std::uint32_t kWheel = 51;  // alice's other group

inline Credential root_user() { return {0, 0, {}}; }
inline Credential alice() { return {kAlice, kAlice, {kStaff, kWheel}}; }
inline Credential bob() { return {kBob, kBob, {kStaff}}; }
inline Credential stranger() { return {2000, 2000, {}}; }

inline ClusterMap test_map() {
  ClusterMap map;
  map.fs = FsId(77);
  for (std::uint32_t id = 1; id <= 4; ++id) {
    ServerEntry server;
    server.id = ServerId(id);
    server.urls = {"sim://" + std::to_string(id)};
    server.roles = {id == 1, true};
    server.targets = {target_id(ServerId(id), 0)};
    map.servers.push_back(server);
  }
  return map;
}

inline MetaOptions test_options() {
  MetaOptions options;
  options.fs = FsId(77);
  options.server = ServerId(1);
  options.map = test_map();
  return options;
}

/// For EXPECT_TRUE and EXPECT_FALSE, which then show the size.
inline ::testing::AssertionResult knows_size(const Attributes& a) {
  return ::testing::AssertionResult(a.size_known)
         << (a.size_known ? "the size is known" : "the size is not known") << ", as " << a.size << " bytes";
}
/// The same for a lease in a reply.
template <typename Reply>
::testing::AssertionResult is_granted(const Reply& reply) {
  return ::testing::AssertionResult(reply.granted)
         << (reply.granted ? "a lease is granted" : "no lease is granted") << ", for " << reply.lease_ms
         << " ms, in lock table " << reply.table;
}

struct TestFsOptions {
  std::uint64_t seed = 1;
  bool overlap = false;  // the store completes later and in a random order, and coroutines run in a random order
  MetaOptions meta = test_options();
  std::set<ServerId> silent = {};  // io servers that have not shown that they can be members of groups
};

/// A file system with the store, the clock and the random numbers of a test.
class TestFs {
 public:
  explicit TestFs(TestFsOptions options = {})
      : silent(options.silent),
        random(options.seed),
        executor(clock, {options.overlap ? &random : nullptr, Duration(0)}),
        store(options.overlap ? &random : nullptr),
        context(store, executor) {
    (void)log::set_level("server", log::Level::warn);
    open(options.meta);
  }
  TestFs(const TestFs&) = delete;
  ~TestFs() {
    store.on_commit = {};
    close();
  }

  /// Starts a server on the store.
  void open(MetaOptions options) {
    answers = std::make_unique<AnswerTable>(context, options.answer_slots);
    core = std::make_unique<MetaCore>(std::move(options), context, random, metrics);
    core->attach(fakes.parts(*answers));
    service = std::make_unique<MetaService>(*core);
    started = run(core->start());
    for (const ServerEntry& server : core->membership().map().servers) {
      if (!silent.contains(server.id)) core->group_servers().note(server.id, true);
    }
  }
  void close() {
    if (core == nullptr) return;
    (void)run(core->stop());
    service.reset();
    core.reset();
  }
  /// Ends the server without the writes of an orderly end.
  void crash() {
    store.on_commit = [] { return Errc::kIoError; };
    close();
    store.on_commit = {};
  }

  /// Runs the executor until `task` has ended; time passes when nothing else can happen.
  template <typename T>
  T run(job::Task<T> task) {
    std::optional<T> out;
    job::Gate gate(executor);
    job::spawn(gate, into(std::move(task), out));
    drive(gate);
    return *std::move(out);
  }
  /// Runs the executor until everything behind `gate` has ended.
  void drive(job::Gate& gate) {
    while (gate.count() > 0) {
      if (!executor.step()) {
        SPATE_CHECK(executor.next_timer() != MonoTime::never());  // otherwise nothing would ever happen again
        clock.set(executor.next_timer());
      }
    }
  }

  template <typename Reply, typename Request>
  job::Task<Result<Reply>> ask(Credential who, Request request, wire::RequestId id = {}) {
    rpc::Call call;
    call.header.op = Request::kOp;
    call.header.client = ClientId(9);
    call.header.id = id;
    call.header.reply_room = reply_room;
    call.peer = std::make_shared<rpc::Peer>();
    call.peer->credential = std::move(who);
    if (asking) {
      call.peer->kind = wire::PeerKind::kServer;
      call.peer->server = asking;
      call.peer->features = asking_features;
    } else if (client_features) {
      call.peer->client = ClientId(9);
      call.peer->features = *client_features;
    }
    Bytes body;
    wire::encode_body(request, body);
    SPATE_CO_TRY(auto answer, co_await service->operations().at(Request::kOp).handler(call, body));
    co_return wire::decode_body<Reply>(answer);
  }
  template <typename Reply, typename Request>
  Result<Reply> asked(Credential who, Request request, wire::RequestId id = {}) {
    return run(ask<Reply>(std::move(who), std::move(request), id));
  }

  const std::set<ServerId> silent;
  ServerId asking;  // 0: a client
  std::uint64_t asking_features = wire::kFeatureMirrors;
  std::optional<std::uint64_t> client_features;  // unset: no client, but an internal change
  ManualClock clock;
  SeededRandom random;
  metrics::Registry metrics;
  job::Executor executor;
  TestStore store;
  job::KeyvalContext context;
  FakeParts fakes;
  std::unique_ptr<AnswerTable> answers;
  std::unique_ptr<MetaCore> core;
  std::unique_ptr<MetaService> service;
  Result<void> started;
  std::uint32_t reply_room = 64 * 1024;

 private:
  template <typename T>
  static job::Task<void> into(job::Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }
};

inline wire::NamePath at(std::string path, std::uint8_t flags = 0) {
  wire::NamePath where;
  where.path = std::move(path);
  where.flags = flags;
  return where;
}

inline wire::RenameRequest rename_request(std::string from, std::string to, std::uint8_t flags = 0) {
  wire::RenameRequest request;
  request.from = at(std::move(from));
  request.to = at(std::move(to));
  request.flags = flags;
  return request;
}

/// One user's calls, by path from the root.
class User {
 public:
  User(TestFs& fs, Credential who) : fs_(fs), who_(std::move(who)) {}

  template <typename Reply, typename Request>
  Result<Reply> ask(Request request) {
    return fs_.asked<Reply>(who_, std::move(request));
  }
  Result<wire::ObjectReply> mkdir(std::string path, std::uint32_t mode = 0755) {
    wire::MkdirRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = mode;
    return ask<wire::ObjectReply>(std::move(request));
  }
  Result<wire::OpenReply> create(std::string path, std::uint32_t mode = 0644, std::uint8_t flags = wire::kOpenExclusive,
                                 std::uint8_t walk = 0) {
    wire::CreateRequest request;
    request.where = at(std::move(path), walk);
    request.attributes.mode = mode;
    request.open_flags = flags;
    return ask<wire::OpenReply>(std::move(request));
  }
  /// Creates a file that may have data: it was opened for writing, and closed.
  Result<wire::ObjectReply> create_written(std::string path) {
    SPATE_TRY(const auto made, create(std::move(path), 0644, wire::kOpenWrite | wire::kOpenExclusive));
    wire::CloseRequest request;
    request.handle = made.object.attributes.handle;
    request.rights = Rights::kWrite;
    request.data = wire::DataSummary{};
    return ask<wire::ObjectReply>(request);
  }
  Result<wire::ObjectReply> symlink(std::string target, std::string path) {
    wire::SymlinkRequest request;
    request.where = at(std::move(path));
    request.target = std::move(target);
    return ask<wire::ObjectReply>(std::move(request));
  }
  Result<wire::ObjectReply> link(std::string existing, std::string path) {
    wire::LinkRequest request;
    request.existing = at(std::move(existing));
    request.where = at(std::move(path));
    return ask<wire::ObjectReply>(std::move(request));
  }
  Result<wire::ObjectReply> unlink(std::string path) {
    wire::UnlinkRequest request;
    request.where = at(std::move(path));
    return ask<wire::ObjectReply>(std::move(request));
  }
  Result<wire::Empty> rmdir(std::string path) {
    wire::RmdirRequest request;
    request.where = at(std::move(path));
    return ask<wire::Empty>(std::move(request));
  }
  Result<wire::Empty> rename(std::string from, std::string to, std::uint8_t flags = 0) {
    wire::RenameRequest request;
    request.from = at(std::move(from));
    request.to = at(std::move(to));
    request.flags = flags;
    return ask<wire::Empty>(std::move(request));
  }
  Result<wire::ObjectReply> stat(std::string path, std::uint8_t flags = 0) {
    wire::LookupRequest request;
    request.where = at(std::move(path), flags);
    return ask<wire::ObjectReply>(std::move(request));
  }
  Result<wire::ObjectReply> getattr(Handle handle) {
    wire::GetattrRequest request;
    request.handle = handle;
    return ask<wire::ObjectReply>(request);
  }
  Result<wire::ObjectReply> setattr(std::string path, wire::SetattrRequest request) {
    request.where = at(std::move(path));
    return ask<wire::ObjectReply>(std::move(request));
  }
  Result<wire::ObjectReply> chmod(std::string path, std::uint32_t mode) {
    wire::SetattrRequest request;
    request.mode = mode;
    return setattr(std::move(path), std::move(request));
  }
  Result<wire::ObjectReply> chown(std::string path, std::optional<std::uint32_t> uid,
                                  std::optional<std::uint32_t> gid = std::nullopt) {
    wire::SetattrRequest request;
    request.uid = uid;
    request.gid = gid;
    return setattr(std::move(path), std::move(request));
  }
  Result<wire::Empty> setxattr(std::string path, std::string name, std::string value, std::uint8_t flags = 0) {
    wire::SetxattrRequest request;
    request.where = at(std::move(path));
    request.name = std::move(name);
    request.value = to_bytes(as_bytes(value));
    request.flags = flags;
    return ask<wire::Empty>(std::move(request));
  }
  Result<std::string> getxattr(std::string path, std::string name) {
    wire::GetxattrRequest request;
    request.where = at(std::move(path));
    request.name = std::move(name);
    SPATE_TRY(auto reply, ask<wire::GetxattrReply>(std::move(request)));
    return std::string(as_text(reply.value));
  }
  Result<wire::Empty> removexattr(std::string path, std::string name) {
    wire::RemovexattrRequest request;
    request.where = at(std::move(path));
    request.name = std::move(name);
    return ask<wire::Empty>(std::move(request));
  }
  Result<std::vector<std::string>> listxattr(std::string path) {
    wire::ListxattrRequest request;
    request.where = at(std::move(path));
    SPATE_TRY(auto reply, ask<wire::ListxattrReply>(std::move(request)));
    return std::move(reply.names);
  }
  Result<wire::ReaddirReply> readdir(Handle handle, std::uint64_t cookie = 0, bool attributes = false) {
    wire::ReaddirRequest request;
    request.handle = handle;
    request.cookie = cookie;
    request.attributes = attributes;
    return ask<wire::ReaddirReply>(request);
  }
  Result<wire::MetaStatfsReply> statfs() { return ask<wire::MetaStatfsReply>(wire::MetaStatfsRequest{}); }

 private:
  TestFs& fs_;
  Credential who_;
};

}  // namespace spate::meta
