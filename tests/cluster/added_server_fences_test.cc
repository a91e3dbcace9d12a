// SPDX-License-Identifier: Apache-2.0
// A client loses its session without knowing it. Its later requests must not reach a file on an io server that was
// added meanwhile, or whose disk was replaced: another client has the lock by then, and has written.
#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;

constexpr std::uint64_t kStripBytes = 4096;  // one strip

/// When the io server is added, and what happens to it and to the meta server before or after the session's end.
enum class When : std::uint8_t {
  kAddedBefore,         // the server is added, then the session ends
  kAddedBeforeRestart,  // the server is added, the machine of the meta server crashes, then the session ends
  kReplacedAfter,       // the session ends, then the server gets an empty disk
};

wire::LockSpec whole_file(Handle handle) {
  wire::LockSpec lock;
  lock.handle = handle;
  lock.kind = LockKind::kFlock;
  lock.owner = 1;
  lock.mode = LockMode::kExclusive;
  return lock;
}

/// One run of the scene. run() yields the file's content at the end.
class FencedClient {
 public:
  FencedClient(When when, Plant plant)
      : when_(when),
        options_(with(plant)),
        world_(options_),
        silent_(world_.start_client()),
        other_(world_.start_client()) {}

  std::string run() {
    const auto early = make(silent_, "early", {});
    add();
    const auto mine = make(silent_, "f", added_);
    const auto theirs = open(other_, "f");
    write(other_, *theirs, 'o');  // now both clients know the server
    write(silent_, *mine, 'a');
    lock(silent_, mine->handle(), Errc::kOk);
    if (when_ == When::kAddedBeforeRestart) crash(kMetaServer);
    world_.fabric().links().partition(kMetaServer.value, silent_.node(), true);
    world_.run_for(std::chrono::seconds(12));
    if (when_ == When::kReplacedAfter) replace();
    lock(other_, theirs->handle(), Errc::kOk);
    const auto writing = begin_write(other_, *theirs, 'b');
    world_.run_for(std::chrono::seconds(2));
    const auto late = begin_write(silent_, *mine, 'l');
    world_.run_for(std::chrono::seconds(2));
    if (when_ == When::kReplacedAfter) world_.fabric().links().partition(kMetaServer.value, added_.value, false);
    EXPECT_OK(end_call(world_, writing));
    world_.run_for(std::chrono::seconds(8));
    return content(*theirs);
  }

 private:
  using FilePtr = std::unique_ptr<client::File>;

  static WorldOptions with(Plant plant) {
    WorldOptions options;
    options.plant = plant;
    return options;
  }
  void add() {
    added_ = world_.add_io_server(options_);
    world_.run_for(std::chrono::seconds(1));
  }
  void crash(ServerId server) {
    world_.kill_server(server, Death::kMachine);
    world_.start_server(server);
    world_.run_for(std::chrono::seconds(1));
  }
  void replace() {
    world_.kill_server(added_, Death::kMachine);
    world_.replace_disks(added_, options_);
    world_.fabric().links().partition(kMetaServer.value, added_.value, true);
    world_.start_server(added_);
  }
  /// A file with one strip, on `server` if that is given.
  FilePtr make(ClientProcess& by, const std::string& name, ServerId server) {
    client::NewObject object;
    object.layout.slot_count = 1;
    if (server) object.layout.first_target = target_id(server, 0);
    auto made = call(world_, by, by.client().create(client::path_from_root(name), kReadWrite, object));
    SPATE_CHECK(made.has_value());
    return *std::move(made);
  }
  FilePtr open(ClientProcess& by, const std::string& name) {
    auto opened = call(world_, by, by.client().open(client::path_from_root(name), kReadWrite));
    SPATE_CHECK(opened.has_value());
    return *std::move(opened);
  }
  Outcome<Result<void>> begin_write(ClientProcess& by, client::File& file, char with) {
    written_.push_back(std::make_unique<Bytes>(kStripBytes, static_cast<std::byte>(with)));
    return begin_call(by, file.write(0, *written_.back()));
  }
  void write(ClientProcess& by, client::File& file, char with) {
    EXPECT_OK(end_call(world_, begin_write(by, file, with)));
  }
  void lock(ClientProcess& by, Handle handle, Errc expected) {
    SPATE_CHECK(call(world_, by, by.client().cluster().locks().set(whole_file(handle), false)).code() == expected);
  }
  std::string content(client::File& file) {
    Bytes memory(kStripBytes);
    const auto got = call(world_, other_, file.read(0, memory));
    SPATE_CHECK(got.has_value());
    return std::string(as_text(memory));
  }

  const When when_;
  const WorldOptions options_;
  std::vector<std::unique_ptr<Bytes>> written_;  // outlives the calls that use it
  World world_;
  ClientProcess& silent_;
  ClientProcess& other_;
  ServerId added_;
};

const std::string kTheirs(kStripBytes, 'b');

TEST(AddedServerFences, ASessionThatEndsLaterIsFencedThere) {
  EXPECT_EQ(FencedClient(When::kAddedBefore, Plant::kNone).run(), kTheirs);
  EXPECT_NE(FencedClient(When::kAddedBefore, Plant::kUnfencedServer).run(), kTheirs) << "the plant is not found";
}

TEST(AddedServerFences, AMetaServerThatIsStartedAgainFencesThere) {
  EXPECT_EQ(FencedClient(When::kAddedBeforeRestart, Plant::kNone).run(), kTheirs);
  EXPECT_NE(FencedClient(When::kAddedBeforeRestart, Plant::kForgottenServer).run(), kTheirs)
      << "the plant is not found";
}

TEST(AddedServerFences, AServerWithAnEmptyDiskLearnsWhichSessionsHaveEnded) {
  EXPECT_EQ(FencedClient(When::kReplacedAfter, Plant::kNone).run(), kTheirs);
  EXPECT_NE(FencedClient(When::kReplacedAfter, Plant::kEarlyServer).run(), kTheirs) << "the plant is not found";
}

}  // namespace
}  // namespace spate::cluster
