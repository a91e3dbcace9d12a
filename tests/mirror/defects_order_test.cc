// SPDX-License-Identifier: Apache-2.0
// Each rule of mirrored files has a scene in which something is lost without it: changes that are under way at once.
#include <set>

#include "tests/mirror/defect_scene.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using FilePtr = std::unique_ptr<client::File>;
using namespace std::chrono_literals;

constexpr std::uint64_t kLargest = 8U << 20U;  // of a message, bytes
constexpr std::size_t kWriters = 8;            // a client gets half of the buffers at most

struct LargeWriter {
  ClientProcess* client = nullptr;
  FilePtr file;
};

/// A client whose messages are as large as a server allows, with a new file of one datafile.
LargeWriter large_writer(World& world, const std::string& name) {
  client::Options limits = small_client_options({}, {}, {});
  limits.unit_bytes = kLargest;
  limits.max_transfer_bytes = kLargest;
  ClientProcess& client = world.start_client(limits);
  client::NewObject object;
  object.layout.slot_count = 1;
  auto made = call(world, client, client.client().create(client::path_from_root(name), kMirrorOpen, object));
  SPATE_CHECK(made.has_value());
  return {&client, *std::move(made)};
}

/// Two clients write the same bytes at once. All copies must have the same of the two, or the same mixture.
std::string writes_at_once(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  ClientProcess& other = scene.world.start_client();
  const FilePtr opened = scene.open_by(other);
  for (int round = 0; round < 10 && scene.wrong.empty(); ++round) {
    const Bytes ours = filled(2);
    const Bytes theirs = filled(3);
    const auto first = begin_call(scene.client, scene.file->write(0, ours));
    const auto second = begin_call(other, opened->write(0, theirs));
    const auto first_done = end_call(scene.world, first);
    const auto second_done = end_call(scene.world, second);
    if (!first_done || !second_done) scene.wrong += "a write fails; ";
    scene.compare();
  }
  return scene.wrong;
}

/// The disk of a member is slow with one change of a primary that is lost meanwhile. The change must not take effect
/// after those of the next primary.
std::string change_that_outlasts_its_primary(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  ClientProcess& writer = scene.world.start_client();
  const FilePtr opened = scene.open_by(writer);
  trove::SimDiskModel slow;
  slow.memory_latency = 5s;
  slow.immediate_per_mille = 0;
  trove::SimDisk& disk = *scene.world.disks(scene.backup).targets.front();
  disk.set_model(slow);
  const Bytes data = filled(2);
  const auto pending = begin_call(writer, opened->write(0, data));
  scene.world.run_for(100ms);
  disk.set_model({});
  scene.mirrors.kill(scene.primary);
  scene.world.kill_client(writer, Death::kProcess);
  scene.write(filled(3));
  scene.world.run_for(8s);
  scene.expect_byte(scene.client, *scene.file, 3);
  scene.mirrors.restart(scene.primary);
  scene.compare();
  return scene.wrong;
}

/// Two servers lead a group each, in which the other one is a member, and clients take all buffers of both. The
/// requests that they send each other must not wait for these buffers.
std::string writers_at_both_ends(Defect defect, std::uint64_t seed) {
  WorldOptions options = mirror_options(seed);
  options.io_servers = 2;
  DefectScene scene(defect, options);
  std::vector<LargeWriter> writers;
  std::set<ServerId> leaders;
  for (std::size_t i = 0; i < kWriters; ++i) {
    writers.push_back(large_writer(scene.world, "w" + std::to_string(i)));
    leaders.insert(scene.mirrors.primary_of(*writers[i].file));
  }
  if (leaders.size() != 2) scene.wrong += "not as the scene wants it; ";
  scene.world.run_for(5s);
  const auto before = scene.mirrors.groups();
  const Bytes data(2 * kLargest, std::byte{7});
  std::vector<Outcome<Result<void>>> pending;
  for (const LargeWriter& writer : writers) pending.push_back(begin_call(*writer.client, writer.file->write(0, data)));
  for (const auto& write : pending) {
    if (!end_call(scene.world, write)) scene.wrong += "a write fails; ";
  }
  for (const auto& [id, group] : scene.mirrors.groups()) {
    if (group.epoch != before.at(id).epoch) scene.wrong += "a member is left out; ";
  }
  return scene.wrong;
}

class MirrorOrder : public ::testing::TestWithParam<MirrorRule> {};

TEST_P(MirrorOrder, TheSceneKeepsTheRule) { expect_kept(GetParam()); }

TEST_P(MirrorOrder, APlantedDefectIsFound) { expect_found(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, MirrorOrder,
    ::testing::Values(MirrorRule{"OverlapsAreOrdered", Defect::kOverlapsUnordered, writes_at_once},
                      MirrorRule{"ChangesEndWithTheirEpoch", Defect::kEpochBeforeEnd, change_that_outlasts_its_primary},
                      MirrorRule{"ServersHaveBuffersOfTheirOwn", Defect::kClientsBuffers, writers_at_both_ends}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spate::cluster
