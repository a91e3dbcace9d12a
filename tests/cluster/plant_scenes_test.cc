// SPDX-License-Identifier: Apache-2.0
// Plants that only a scene of their own reveals. The scene succeeds without the plant and fails with it.
#include "base/expect.h"
#include "server/meta/store/keys.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;

WorldOptions with(Plant plant) {
  WorldOptions options;
  options.plant = plant;
  return options;
}

wire::LockSpec bytes_from(Handle handle, std::uint64_t first) {
  wire::LockSpec lock;
  lock.handle = handle;
  lock.kind = LockKind::kProcess;
  lock.owner = 1;
  lock.mode = LockMode::kExclusive;
  lock.first = first;
  lock.last = first + 9;
  return lock;
}

std::unique_ptr<client::File> make(World& world, ClientProcess& client, const std::string& name) {
  auto made = call(world, client, client.client().create(path_from_root(name), kReadWrite, {}));
  SPATE_CHECK(made.has_value());
  return *std::move(made);
}

Errc lock(World& world, ClientProcess& client, const wire::LockSpec& what) {
  return call(world, client, client.client().cluster().locks().set(what, false)).code();
}

/// Just after its session has expired, a client requests more of a file that it had locked, and releases all of it.
/// Returns whether another client then gets the lock.
Errc lock_after_silence(Plant plant) {
  World world(with(plant));
  ClientProcess& silent = world.start_client();
  ClientProcess& other = world.start_client();
  const auto file = make(world, silent, "f");
  const Handle handle = file->handle();
  SPATE_CHECK(lock(world, silent, bytes_from(handle, 0)) == Errc::kOk);
  world.fabric().links().partition(kMetaServer.value, silent.node(), true);
  world.run_for(std::chrono::seconds(6));
  world.fabric().links().partition(kMetaServer.value, silent.node(), false);
  std::ignore = lock(world, silent, bytes_from(handle, 100));
  std::ignore = call(world, silent, silent.client().cluster().locks().release(handle, {LockKind::kProcess, 1}));
  return lock(world, other, bytes_from(handle, 100));
}

/// A client with several opens and a lock dies, and the record of one open is damaged. Returns whether another client
/// gets the lock after the session's expiry.
Errc lock_of_the_dead(Plant plant) {
  World world(with(plant));
  ClientProcess& dead = world.start_client();
  ClientProcess& other = world.start_client();
  const auto damaged = make(world, dead, "damaged");
  const auto locked = make(world, dead, "locked");
  const Handle handle = locked->handle();
  SPATE_CHECK(lock(world, dead, bytes_from(handle, 0)) == Errc::kOk);
  const rpc::Identity& identity = dead.client().session().identity();
  world.kill_server(kMetaServer, Death::kProcess);
  const auto key = meta::open_key(damaged->handle(), identity.client, identity.epoch);
  world.disks(kMetaServer).records.append({{to_bytes(key), Bytes(3, std::byte{1})}});
  world.start_server(kMetaServer);
  world.run_for(std::chrono::seconds(2));
  world.kill_client(dead, Death::kProcess);
  world.run_for(std::chrono::seconds(30));
  return lock(world, other, bytes_from(handle, 0));
}

TEST(PlantSceneTest, ALockTakenJustAfterTheSessionRanOutIsReleased) {
  EXPECT_EQ(lock_after_silence(Plant::kNone), Errc::kOk);
  EXPECT_EQ(lock_after_silence(Plant::kLateLock), Errc::kTryAgain) << "the plant is not found";
}

TEST(PlantSceneTest, ADamagedOpenOfADeadClientKeepsNoLock) {
  EXPECT_EQ(lock_of_the_dead(Plant::kNone), Errc::kOk);
  EXPECT_NE(lock_of_the_dead(Plant::kStuckOpens), Errc::kOk) << "the plant is not found";
}

}  // namespace
}  // namespace spate::cluster
