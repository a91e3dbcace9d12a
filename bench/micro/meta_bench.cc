// SPDX-License-Identifier: Apache-2.0
// The meta server's processor time for one operation, without a network, over the store in memory and over RocksDB in
// /dev/shm. Requests are decoded and replies encoded, as on the wire. Each answer is stored for resends.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

#include "log/log.h"
#include "server/meta/core/answers.h"
#include "server/meta/meta_service.h"
#include "server/meta/testing/parts_test.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/rocksdb/rocksdb_keyval.h"

namespace spate::meta {
namespace {

class Subject {
 public:
  explicit Subject(bool rocksdb) : executor_(clock_), random_(1) {
    (void)log::set_level("", log::Level::warn);
    if (rocksdb) {
      folder_ = "/dev/shm/spate_meta_bench." + std::to_string(::getpid());
      trove::RocksdbOptions options;
      options.folder = folder_;
      store_ = *trove::open_rocksdb(options);
    } else {
      store_ = trove::make_memory_keyval();
    }
    context_ = std::make_unique<job::KeyvalContext>(*store_, executor_);
    MetaOptions options;
    options.fs = FsId(77);
    options.map.fs = FsId(77);
    for (std::uint32_t id = 1; id <= 4; ++id) {
      options.map.servers.push_back({ServerId(id), {"sim://x"}, {id == 1, true}, {target_id(ServerId(id), 0)}});
    }
    answers_ = std::make_unique<AnswerTable>(*context_, options.answer_slots);
    core_ = std::make_unique<MetaCore>(std::move(options), *context_, random_, metrics_);
    core_->attach(fakes_.parts(*answers_));
    service_ = std::make_unique<MetaService>(*core_);
    SPATE_CHECK(executor_.run(core_->start()));
    call_.peer = std::make_shared<rpc::Peer>();
    call_.peer->credential = {1000, 1000, {}};
    call_.header.client = ClientId(9);
    call_.header.reply_room = 64 * 1024;
  }
  ~Subject() {
    (void)executor_.run(core_->stop());
    service_.reset();
    core_.reset();
    answers_.reset();
    context_.reset();
    store_.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  template <typename Reply, typename Request>
  Reply ask(const Request& request) {
    body_.clear();
    wire::encode_body(request, body_);
    call_.header.op = Request::kOp;
    call_.header.id = {static_cast<std::uint16_t>(sequence_ % 16), sequence_};
    ++sequence_;
    auto answer = executor_.run(service_->operations().at(Request::kOp).handler(call_, body_));
    SPATE_CHECK(answer);
    return *wire::decode_body<Reply>(*answer);
  }

  Handle directory(const std::string& name) {
    wire::MkdirRequest request;
    request.where.path = name;
    request.attributes.mode = 0755;
    return ask<wire::ObjectReply>(request).attributes.handle;
  }
  wire::OpenReply create(Handle directory, const std::string& name, std::uint8_t flags) {
    wire::CreateRequest request;
    request.where = {directory, name, 0};
    request.attributes.mode = 0644;
    request.open_flags = flags;
    return ask<wire::OpenReply>(request);
  }

 private:
  SystemClock clock_;
  job::Executor executor_;
  SeededRandom random_;
  metrics::Registry metrics_;
  std::string folder_;
  std::unique_ptr<trove::Keyval> store_;
  std::unique_ptr<job::KeyvalContext> context_;
  FakeParts fakes_;
  std::unique_ptr<AnswerTable> answers_;
  std::unique_ptr<MetaCore> core_;
  std::unique_ptr<MetaService> service_;
  rpc::Call call_;
  Bytes body_;
  std::uint64_t sequence_ = 1;
};

void create_and_open(benchmark::State& state) {
  Subject subject(state.range(0) != 0);
  const Handle directory = subject.directory("d");
  std::uint64_t n = 0;
  for (auto _ : state) {
    subject.create(directory, "file" + std::to_string(n++), wire::kOpenWrite | wire::kOpenExclusive);
  }
}
BENCHMARK(create_and_open)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void create_and_unlink(benchmark::State& state) {
  Subject subject(state.range(0) != 0);
  const Handle directory = subject.directory("d");
  wire::UnlinkRequest request;
  request.where = {directory, "file", 0};
  for (auto _ : state) {
    subject.create(directory, "file", wire::kOpenExclusive);
    subject.ask<wire::ObjectReply>(request);
  }
}
BENCHMARK(create_and_unlink)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void lookup_by_name(benchmark::State& state) {
  Subject subject(state.range(0) != 0);
  const Handle directory = subject.directory("d");
  for (int i = 0; i < 1000; ++i) subject.create(directory, "file" + std::to_string(i), wire::kOpenExclusive);
  wire::LookupRequest request;
  std::uint64_t n = 0;
  for (auto _ : state) {
    request.where = {directory, "file" + std::to_string(n++ % 1000), 0};
    benchmark::DoNotOptimize(subject.ask<wire::ObjectReply>(request));
  }
}
BENCHMARK(lookup_by_name)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

void list_with_attributes(benchmark::State& state) {
  Subject subject(state.range(0) != 0);
  const Handle directory = subject.directory("d");
  for (int i = 0; i < 300; ++i) subject.create(directory, "file" + std::to_string(i), wire::kOpenExclusive);
  wire::ReaddirRequest request;
  request.handle = directory;
  request.attributes = true;
  std::size_t entries = 0;
  for (auto _ : state) entries += subject.ask<wire::ReaddirReply>(request).entries.size();
  state.SetItemsProcessed(static_cast<std::int64_t>(entries));
}
BENCHMARK(list_with_attributes)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace spate::meta
