// SPDX-License-Identifier: Apache-2.0
// Many tasks of one client change names at the same time. Several of their changes go to the meta server in one
// request. Each change has the same result as a request of its own.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <vector>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;

constexpr int kTasks = 100;
const Bytes kData(1000, std::byte{3});

class BatchesTest : public ::testing::Test {
 protected:
  explicit BatchesTest(const WorldOptions& options = {}) : world_(options), client_(start()), other_(start()) {
    EXPECT_EQ(stat(client_, "none"), Errc::kNotFound);  // its handshake tells the client that the server knows batches
    world_.watch().on_arrival([this](const WatchedRequest& request) { ++asked_[request.op]; });
  }
  ClientProcess& start() {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    return world_.start_client(std::move(options));
  }
  static std::string file(int i) { return fmt::format("f{}", i); }
  static wire::CreateRequest exclusive(int i) {
    wire::CreateRequest request;
    request.where = path_from_root(file(i));
    request.attributes.mode = 0644;
    request.open_flags = wire::kOpenExclusive;
    return request;
  }
  /// Begins kTasks calls at the same time; make(i) makes the ith one.
  template <typename Make>
  auto begin_all(Make make) {
    std::vector<decltype(begin_call(client_, make(0)))> calls;
    for (int i = 0; i < kTasks; ++i) calls.push_back(begin_call(client_, make(i)));
    return calls;
  }
  template <typename Calls>
  std::vector<Errc> end_all(const Calls& calls) {
    std::vector<Errc> out;
    for (const auto& one : calls) out.push_back(end_call(world_, one).code());
    return out;
  }
  auto create_all() {
    return begin_all([this](int i) { return client_.client().make_node(exclusive(i)); });
  }
  auto unlink_all() {
    return begin_all([this](int i) { return client_.client().unlink(path_from_root(file(i))); });
  }
  job::Task<Result<std::unique_ptr<client::File>>> make_and_write(int i) {
    auto made = co_await client_.client().create(path_from_root(file(i)), wire::kOpenWrite, {});
    SPATE_CO_TRY(std::ignore, co_await (*made)->write(0, ByteView(kData)));
    co_return made;
  }
  Errc stat(ClientProcess& process, const std::string& path) {
    return call(world_, process, process.client().stat(path_from_root(path))).code();
  }

  World world_;
  ClientProcess& client_;
  ClientProcess& other_;
  std::map<wire::Op, unsigned> asked_;
};

TEST_F(BatchesTest, ManyTasksShareRequests) {
  EXPECT_THAT(end_all(create_all()), testing::Each(Errc::kOk));
  EXPECT_GE(asked_[wire::Op::kChangeBatch], 2U);
  EXPECT_LE(asked_[wire::Op::kChangeBatch] + asked_[wire::Op::kCreate], kTasks / 2U);
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(stat(other_, file(i)), Errc::kOk) << i;
  EXPECT_THAT(end_all(create_all()), testing::Each(Errc::kExists));
  EXPECT_THAT(end_all(unlink_all()), testing::Each(Errc::kOk));
  for (int i = 0; i < kTasks; ++i) {
    EXPECT_EQ(stat(other_, file(i)), Errc::kNotFound) << i;
    EXPECT_EQ(stat(client_, file(i)), Errc::kNotFound) << i;
  }
}

TEST_F(BatchesTest, ARestartInTheMiddleMakesEachChangeOnce) {
  const auto calls = create_all();
  while (asked_[wire::Op::kChangeBatch] < 2) world_.turn(world_.now() + std::chrono::seconds(1));
  world_.kill_server(ServerId{1}, Death::kProcess);
  world_.start_server(ServerId{1});
  EXPECT_THAT(end_all(calls), testing::Each(Errc::kOk)) << "an exclusive create that is made twice says exists";
}

TEST_F(BatchesTest, ACreatedFileIsWrittenAndClosed) {
  const auto made = begin_all([this](int i) {
    return client_.client().create(path_from_root(file(i)), wire::kOpenWrite | wire::kOpenExclusive, {});
  });
  std::vector<std::unique_ptr<client::File>> files;
  for (const auto& one : made) files.push_back(end_call(world_, one).value());
  EXPECT_THAT(end_all(begin_all([&](int i) {
                const auto place = static_cast<std::size_t>(i);
                return files[place]->write(0, ByteView(kData));
              })),
              testing::Each(Errc::kOk));
  EXPECT_THAT(end_all(begin_all([&](int i) { return files[static_cast<std::size_t>(i)]->close(); })),
              testing::Each(Errc::kOk));
  EXPECT_LE(asked_[wire::Op::kClose], kTasks / 2U);
  for (int i = 0; i < kTasks; ++i) {
    const auto found = call(world_, other_, other_.client().stat(path_from_root(file(i))));
    ASSERT_OK(found);
    EXPECT_EQ(found->attributes.size, kData.size()) << i;
    EXPECT_TRUE(found->attributes.size_known) << i;
  }
}

/// A batch makes new files and opens an existing one. The existing file's data must not be taken for empty.
TEST_F(BatchesTest, AFileThatWasThereIsNotTakenForOneThatWasMade) {
  const auto open = [this](int i) {
    return client_.client().create(path_from_root(file(i)), wire::kOpenRead | wire::kOpenWrite, {});
  };
  const auto before = call(world_, client_, open(kTasks / 2));
  ASSERT_OK(before);
  ASSERT_OK(call(world_, client_, (*before)->write(0, ByteView(kData))));
  std::vector<std::unique_ptr<client::File>> files;
  for (const auto& one : begin_all(open)) files.push_back(end_call(world_, one).value());
  EXPECT_GE(asked_[wire::Op::kChangeBatch], 2U);
  for (int i = 0; i < kTasks; ++i) {
    const auto found = call(world_, client_, client_.client().stat(path_from_root(file(i))));
    ASSERT_OK(found);
    EXPECT_EQ(found->attributes.size, i == kTasks / 2 ? kData.size() : 0) << i;
  }
}

/// This also holds if the reply to another change of the batch arrives after the file was written.
TEST_F(BatchesTest, TheContentOfANewFileIsKnownWithoutTheServers) {
  const auto calls = begin_all([this](int i) { return make_and_write(i); });
  std::vector<std::unique_ptr<client::File>> files;
  for (const auto& one : calls) files.push_back(end_call(world_, one).value());
  asked_.clear();
  for (int i = 0; i < kTasks; ++i) {
    const auto found = call(world_, client_, client_.client().stat(path_from_root(file(i))));
    ASSERT_OK(found);
    EXPECT_EQ(found->attributes.size, kData.size()) << i;
  }
  EXPECT_EQ(asked_[wire::Op::kDatafileStat], 0U);
  EXPECT_EQ(asked_[wire::Op::kLookupLease], 0U);
}

/// One of many tasks. It makes random changes to its own names, one after another, and predicts each result.
class Task {
 public:
  Task(ClientProcess& client, int number, std::uint64_t seed)
      : client_(client), name_(fmt::format("t{}", number)), random_(seed) {}

  job::Task<std::string> run(int changes) {
    std::string wrong;
    for (int i = 0; i < changes && wrong.empty(); ++i) {
      const std::string name = fmt::format("{}-{}", name_, random_.below(4));
      const Errc wanted = wanted_of(name, static_cast<Kind>(random_.below(kKinds)));
      const Errc got = co_await make(name);
      if (got != wanted)
        wrong = fmt::format("change {} of {}: {}, not {}", i, name, spate::name(got), spate::name(wanted));
    }
    co_return wrong;
  }
  const std::map<std::string, FileType>& names() const { return there_; }

 private:
  enum class Kind : std::uint8_t { kFile, kOpened, kDirectory, kLink, kUnlink, kRmdir, kMode };
  static constexpr unsigned kKinds = 7;

  Errc make_new(const std::string& name, FileType type) {
    return there_.try_emplace(name, type).second ? Errc::kOk : Errc::kExists;
  }
  /// Chooses `kind` as the next change, applies it to the model, and returns the expected result.
  Errc wanted_of(const std::string& name, Kind kind) {
    kind_ = kind;
    const auto found = there_.find(name);
    switch (kind) {
      case Kind::kFile:
      case Kind::kOpened: return make_new(name, FileType::kRegular);
      case Kind::kDirectory: return make_new(name, FileType::kDirectory);
      case Kind::kLink: return make_new(name, FileType::kSymlink);
      case Kind::kMode:
        if (found == there_.end()) return Errc::kNotFound;
        return found->second == FileType::kSymlink ? Errc::kNotSupported : Errc::kOk;
      case Kind::kUnlink:
      case Kind::kRmdir: break;
    }
    if (found == there_.end()) return Errc::kNotFound;
    const bool directory = found->second == FileType::kDirectory;
    if (directory != (kind == Kind::kRmdir)) return directory ? Errc::kIsDirectory : Errc::kNotDirectory;
    there_.erase(found);
    return Errc::kOk;
  }

  job::Task<Errc> make(std::string name) {
    client::Client& client = client_.client();
    wire::SetattrRequest mode;
    mode.where = path_from_root(name, false);
    mode.mode = 0600;
    wire::CreateRequest create;
    create.where = path_from_root(name);
    create.attributes.mode = 0644;
    create.open_flags = wire::kOpenExclusive;
    switch (kind_) {
      case Kind::kFile: co_return (co_await client.make_node(create)).code();
      case Kind::kOpened: {
        auto file = co_await client.create(path_from_root(name), wire::kOpenWrite | wire::kOpenExclusive, {});
        if (!file) co_return file.code();
        co_return (co_await (*file)->close()).code();
      }
      case Kind::kDirectory: co_return (co_await client.mkdir(path_from_root(name), {})).code();
      case Kind::kLink: co_return (co_await client.symlink(path_from_root(name), "to", {})).code();
      case Kind::kUnlink: co_return (co_await client.unlink(path_from_root(name))).code();
      case Kind::kRmdir: co_return (co_await client.rmdir(path_from_root(name))).code();
      case Kind::kMode: co_return (co_await client.setattr(mode)).code();
    }
    co_return Errc::kUnknown;
  }

  ClientProcess& client_;
  const std::string name_;
  SeededRandom random_;
  Kind kind_ = Kind::kFile;
  std::map<std::string, FileType> there_;
};

class RandomBatchesTest : public BatchesTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  RandomBatchesTest() : BatchesTest(seeded(GetParam())) {}
  static WorldOptions seeded(std::uint64_t seed) {
    WorldOptions options;
    options.seed = seed;
    return options;
  }
};

TEST_P(RandomBatchesTest, EachTaskGetsTheAnswersItWouldGetAloneThoughServersAreKilled) {
  SeededRandom random(GetParam());
  std::deque<Task> tasks;
  std::vector<Outcome<std::string>> calls;
  for (int i = 0; i < 24; ++i) {
    Task& task = tasks.emplace_back(client_, i, random.next());
    calls.push_back(begin_call(client_, task.run(40)));
  }
  for (int i = 0; i < 4; ++i) {
    world_.run_for(std::chrono::milliseconds(1 + random.below(60)));
    world_.kill_server(ServerId{1}, Death::kProcess);
    if (random.chance(1, 2)) world_.run_for(std::chrono::milliseconds(random.below(300)));
    world_.start_server(ServerId{1});
  }
  for (const auto& one : calls) EXPECT_EQ(end_call(world_, one), "");
  EXPECT_GE(asked_[wire::Op::kChangeBatch], 3U);
  std::size_t names = 0;
  for (const Task& task : tasks) {
    names += task.names().size();
    for (const auto& [name, type] : task.names()) {
      const auto found = call(world_, other_, other_.client().stat(path_from_root(name, false)));
      ASSERT_OK(found) << name;
      EXPECT_EQ(found->attributes.type, type) << name;
    }
  }
  const auto root = call(world_, other_, other_.client().stat(path_from_root("")));
  ASSERT_OK(root);
  EXPECT_EQ(root->attributes.size, names);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomBatchesTest, ::testing::Range<std::uint64_t>(1, 41));

/// The servers do not know batches.
class BatchesOfOldServersTest : public BatchesTest {
 protected:
  BatchesOfOldServersTest() : BatchesTest(old()) {}
  static WorldOptions old() {
    WorldOptions options;
    options.features = wire::kOurFeatures & ~std::uint64_t{wire::kFeatureBatches};
    return options;
  }
};

TEST_F(BatchesOfOldServersTest, EachChangeGoesByItself) {
  EXPECT_THAT(end_all(create_all()), testing::Each(Errc::kOk));
  EXPECT_EQ(asked_[wire::Op::kChangeBatch], 0U);
  EXPECT_EQ(asked_[wire::Op::kCreate], static_cast<unsigned>(kTasks));
}

}  // namespace
}  // namespace spate::cluster
