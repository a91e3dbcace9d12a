// SPDX-License-Identifier: Apache-2.0
// The meta server is killed and restarted. A client that had the right to append, or a lock, has it back soon. It must
// not wait until the server gives up on clients that held something before.

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;

/// How the server dies; and whether clients keep attributes, since the new server waits for such clients, too.
using Restart = std::pair<Death, bool>;

class MetaRestartTest : public ::testing::TestWithParam<Restart> {
 protected:
  MetaRestartTest() : world_(WorldOptions()), client_(start()), other_(start()) {}

  ClientProcess& start() {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = GetParam().second;
    return world_.start_client(std::move(options));
  }

  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  std::unique_ptr<client::File> open(ClientProcess& process) {
    auto made = run(process, process.client().create(path_from_root("log"), wire::kOpenWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  Errc append(ClientProcess& process, client::File& file) {
    const Bytes record(700);
    const ByteView view(record);
    return run(process, file.append(std::span(&view, 1))).code();
  }
  /// Opens the file, appends and closes it, as `echo >> log` does.
  Errc append_once(ClientProcess& process) {
    std::unique_ptr<client::File> file = open(process);
    const Errc done = append(process, *file);
    EXPECT_OK(run(process, file->close()));
    return done;
  }
  Errc lock(ClientProcess& process, LockMode mode) {
    wire::LockSpec lock;
    lock.handle = kRootHandle;
    lock.kind = LockKind::kProcess;
    lock.owner = 1;
    lock.mode = mode;
    return run(process, process.client().cluster().locks().set(lock, false)).code();
  }
  void restart() {
    world_.kill_server(kMetaServer, GetParam().first);
    world_.run_for(std::chrono::milliseconds(500));
    world_.start_server(kMetaServer);
    restarted_ = world_.now();
  }
  /// The server has not waited until it gives up on silent clients.
  void expect_soon() {
    EXPECT_LT(world_.now() - restarted_, world_.settings().session_lease) << "waited for a session that is there";
  }

  World world_;
  ClientProcess& client_;
  ClientProcess& other_;
  MonoTime restarted_;
};

TEST_P(MetaRestartTest, AClientThatHadClosedItsFileAppendsWithoutWaitingForALease) {
  ASSERT_EQ(append_once(client_), Errc::kOk);
  restart();
  EXPECT_EQ(append_once(client_), Errc::kOk);
  expect_soon();
}

TEST_P(MetaRestartTest, ClientsAppendToAnOpenFileWithoutWaitingForALease) {
  std::unique_ptr<client::File> file = open(client_);
  ASSERT_EQ(append(client_, *file), Errc::kOk);
  restart();
  EXPECT_EQ(append(client_, *file), Errc::kOk);
  EXPECT_EQ(append_once(other_), Errc::kOk);
  expect_soon();
  EXPECT_EQ(append(client_, *file), Errc::kOk);
  EXPECT_OK(run(client_, file->close()));
  const auto seen = run(other_, other_.client().stat(path_from_root("log")));
  ASSERT_OK(seen);
  EXPECT_EQ(seen->attributes.size, 4U * 700);
}

TEST_P(MetaRestartTest, ALockThatWasReleasedBeforeIsFreeAtOnce) {
  ASSERT_EQ(lock(client_, LockMode::kExclusive), Errc::kOk);
  ASSERT_EQ(lock(client_, LockMode::kNone), Errc::kOk);
  restart();
  EXPECT_EQ(lock(other_, LockMode::kExclusive), Errc::kOk);
  expect_soon();
}

std::string restart_name(const ::testing::TestParamInfo<Restart>& info) {
  const std::string keeping = info.param.second ? "WithLeases" : "";
  return (info.param.first == Death::kProcess ? "KilledProcess" : "CrashedMachine") + keeping;
}
INSTANTIATE_TEST_SUITE_P(Each, MetaRestartTest,
                         ::testing::Values(Restart(Death::kProcess, false), Restart(Death::kMachine, false),
                                           Restart(Death::kProcess, true), Restart(Death::kMachine, true)),
                         restart_name);

}  // namespace
}  // namespace spate::cluster
