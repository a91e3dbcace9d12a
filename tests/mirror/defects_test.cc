// SPDX-License-Identifier: Apache-2.0
// Each rule of mirrored files has a scene in which something is lost without it: servers are lost and return.
#include <set>

#include "server/io/records.h"
#include "tests/mirror/defect_scene.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using FilePtr = std::unique_ptr<client::File>;
using namespace std::chrono_literals;

/// A change that only the primary has must not be read, since the primary may be lost.
std::string read_before_it_is_mirrored(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  ClientProcess& reader = scene.world.start_client();
  const FilePtr opened = scene.open_by(reader);
  scene.cut_one_way(scene.primary, scene.backup, true);
  const Bytes data = filled(2);
  const auto pending = begin_call(scene.client, scene.file->write(0, data));
  scene.world.run_for(500ms);
  if (*pending) scene.wrong += "a write is answered without the backup; ";
  scene.expect_byte(reader, *opened, 1);
  scene.cut_one_way(scene.primary, scene.backup, false);
  if (!end_call(scene.world, pending)) scene.wrong += "a write fails; ";
  scene.compare();
  return scene.wrong;
}

/// A change sent by an earlier primary arrives after a new primary has made another change.
std::string late_change(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  scene.cut_one_way(scene.primary, scene.backup, true);
  scene.write(filled(2));  // the old primary's message is held up; the new primary makes the change
  scene.write(filled(3));
  scene.cut_one_way(scene.primary, scene.backup, false);
  scene.world.run_for(1s);
  scene.expect_byte(scene.client, *scene.file, 3);
  scene.compare();
  return scene.wrong;
}

/// A primary that only one client can still reach must no longer answer from its copy.
std::string stale_read(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  ClientProcess& other = scene.world.start_client();
  const FilePtr opened = scene.open_by(other);
  scene.expect_byte(other, *opened, 1);
  scene.mirrors.cut(scene.primary, scene.backup, true);
  scene.mirrors.cut(scene.primary, kMetaServer, true);
  scene.world.fabric().links().partition(scene.client.node(), scene.primary.value, true);
  scene.write(filled(2));
  scene.expect_byte(other, *opened, 2);
  scene.mirrors.cut(scene.primary, scene.backup, false);
  scene.mirrors.cut(scene.primary, kMetaServer, false);
  scene.world.fabric().links().partition(scene.client.node(), scene.primary.value, false);
  scene.compare();
  return scene.wrong;
}

std::string return_with_changes(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  scene.mirrors.kill(scene.backup);
  scene.write(filled(2));
  scene.mirrors.restart(scene.backup);
  scene.compare();
  return scene.wrong;
}

/// A change may be forgotten from the notes only when it is durable at every member.
std::string crash_after_the_notes_went(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  scene.write(filled(2));
  scene.world.run_for(25s);
  scene.mirrors.kill(scene.backup, Death::kMachine);  // any part of the unsynced changes may survive
  scene.mirrors.restart(scene.backup);
  scene.compare();
  return scene.wrong;
}

/// Of three members, only one has a change. The primary that sent it is lost, and so is the client.
std::string change_that_one_member_has(Defect defect, std::uint64_t seed) {
  WorldOptions options = mirror_options(seed);
  options.replicas = 3;
  DefectScene scene(defect, options);
  std::vector<ServerId> others;
  for (const GroupMember& member : scene.mirrors.group_of(*scene.file).members) {
    if (server_of(member.target) != scene.primary) others.push_back(server_of(member.target));
  }
  ClientProcess& writer = scene.world.start_client();
  const FilePtr opened = scene.open_by(writer);
  scene.world.run_for(25s);  // changes that all members have leave the notes
  scene.cut_one_way(scene.primary, others[0], true);
  const Bytes data = filled(2);
  const auto pending = begin_call(writer, opened->write(0, data));
  scene.world.run_for(1s);
  scene.mirrors.kill(scene.primary);
  scene.world.kill_client(writer, Death::kProcess);
  scene.mirrors.cut(others[0], others[1], true);
  scene.world.run_for(4s);  // one of the others takes over without the second
  if (scene.mirrors.primary_of(*scene.file) != others[0]) scene.wrong += "not as the scene wants it; ";
  scene.expect_byte(scene.client, *scene.file, 1);
  scene.mirrors.cut(others[0], others[1], false);
  scene.cut_one_way(scene.primary, others[0], false);
  scene.mirrors.restart(scene.primary);
  scene.compare();
  return scene.wrong;
}

std::set<Bytes> fences(DefectScene& scene, ServerId server) {
  std::set<Bytes> found;
  const Bytes first = io::fence_key(ClientId(1));
  for (const trove::BatchWrite& record : scene.world.disks(server).records.contents()) {
    if (record.key.size() == first.size() && record.key[0] == first[0] && record.key[1] == first[1])
      found.insert(record.key);
  }
  return found;
}

/// A member returns while it cannot reach the meta server. It must still learn which sessions have ended.
std::string return_without_the_meta_server(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  ClientProcess& gone = scene.world.start_client();
  const FilePtr opened = scene.open_by(gone);
  scene.expect_byte(gone, *opened, 1);
  scene.mirrors.kill(scene.backup);
  scene.world.kill_client(gone, Death::kMachine);
  scene.world.run_for(10s);
  if (fences(scene, scene.primary).empty()) scene.wrong += "the session has not ended; ";
  scene.mirrors.cut(scene.backup, kMetaServer, true);
  scene.mirrors.restart(scene.backup);
  scene.compare();
  if (fences(scene, scene.backup) != fences(scene, scene.primary)) scene.wrong += "fences are missing; ";
  scene.mirrors.cut(scene.backup, kMetaServer, false);
  return scene.wrong;
}

/// A datafile that only the primary has, and that was synced, survives a crash of its machine together with the record
/// that it is one of the group's. So a member that lost its disk receives it.
std::string crash_of_the_only_copy(Defect defect, std::uint64_t seed) {
  WorldOptions options = mirror_options(seed);
  options.io_servers = 2;
  DefectScene scene(defect, options);
  scene.mirrors.kill(scene.backup);
  scene.write(filled(2));
  scene.world.run_for(5s);
  FilePtr made;
  for (int i = 0; i < 20 && made == nullptr; ++i) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto file =
        call(scene.world, scene.client,
             scene.client.client().create(client::path_from_root("g" + std::to_string(i)), kMirrorOpen, object));
    if (file && scene.mirrors.primary_of(**file) == scene.primary) made = *std::move(file);
  }
  SPATE_CHECK(made != nullptr);
  const auto written = call(scene.world, scene.client, made->write(0, filled(7)));
  const auto synced = call(scene.world, scene.client, made->sync());
  if (!written || !synced) scene.wrong += "a write or a sync fails; ";
  scene.mirrors.kill(scene.primary, Death::kMachine);
  scene.mirrors.restart(scene.primary);
  scene.mirrors.restart_empty(scene.backup);
  scene.compare();
  scene.mirrors.kill(scene.primary, Death::kMachine);
  scene.expect_byte(scene.client, *made, 7);
  return scene.wrong;
}

/// The primary's notes of synced changes survive a crash of its machine. So a member that was away meanwhile
/// receives them.
std::string crash_while_the_other_is_away(Defect defect, std::uint64_t seed) {
  DefectScene scene(defect, mirror_options(seed));
  scene.world.run_for(25s);  // changes that all members have leave the notes
  scene.mirrors.kill(scene.backup);
  scene.world.run_for(5s);
  scene.write(filled(2));
  if (!call(scene.world, scene.client, scene.file->sync())) scene.wrong += "a sync fails; ";
  scene.mirrors.kill(scene.primary, Death::kMachine);
  scene.mirrors.restart(scene.primary);
  scene.mirrors.restart(scene.backup);
  scene.compare();
  scene.mirrors.kill(scene.primary, Death::kMachine);
  scene.expect_byte(scene.client, *scene.file, 2);
  return scene.wrong;
}

/// A server misses that another one has taken its place, and that its own notes count no more. Later it is chosen
/// again.
std::string member_again(Defect defect, std::uint64_t seed) {
  WorldOptions options = mirror_options(seed);
  options.rebuild_after = 10s;
  DefectScene scene(defect, options);
  const auto is_member = [&scene](ServerId server) {
    const DataGroup group = scene.mirrors.group_of(*scene.file);
    return std::ranges::any_of(group.members, [server](const auto& m) { return server_of(m.target) == server; });
  };
  const auto wait = [&scene](const auto& done) {
    for (int i = 0; i < 600 && !done(); ++i) scene.world.run_for(100ms);
    if (!done()) scene.wrong += "not as the scene wants it; ";
  };
  scene.world.run_for(25s);  // changes that all members have leave the notes
  scene.mirrors.kill(scene.backup);
  scene.write(filled(2));
  wait([&] { return !is_member(scene.backup) && scene.mirrors.group_of(*scene.file).is_whole(); });
  scene.world.run_for(25s);
  const ServerId third = scene.mirrors.backup_of(*scene.file);
  scene.mirrors.kill(third);
  scene.world.run_for(5s);
  scene.mirrors.restart(scene.backup);
  wait([&] { return is_member(scene.backup) && scene.mirrors.group_of(*scene.file).is_whole(); });
  scene.mirrors.kill(scene.primary);
  scene.expect_byte(scene.client, *scene.file, 2);
  return scene.wrong;
}

/// A server has missed that another one has taken its place. The meta server's store is put back from a backup of
/// before, so that it still names that server as the primary.
std::string restored_meta_store(Defect defect, std::uint64_t seed) {
  WorldOptions options = mirror_options(seed);
  options.rebuild_after = 10s;
  DefectScene scene(defect, options);
  scene.world.run_for(5s);
  const trove::Batch backup = scene.world.disks(kMetaServer).records.contents();
  scene.mirrors.kill(scene.primary);
  scene.write(filled(2));
  const auto is_replaced = [&scene] {
    const DataGroup group = scene.mirrors.group_of(*scene.file);
    const auto is_here = [&scene](const GroupMember& m) { return server_of(m.target) == scene.primary; };
    return group.is_whole() && std::ranges::none_of(group.members, is_here);
  };
  for (int i = 0; i < 600 && !is_replaced(); ++i) scene.world.run_for(100ms);
  if (!is_replaced()) scene.wrong += "not as the scene wants it; ";
  scene.write(filled(3));
  scene.mirrors.kill(kMetaServer);
  scene.world.replace_disks(kMetaServer, options);
  trove::SimKeyvalDisk& records = scene.world.disks(kMetaServer).records;
  records.attach();
  records.append(backup);
  records.sync_to(records.position());
  records.detach();
  scene.mirrors.restart(scene.primary);
  scene.mirrors.restart(kMetaServer);
  scene.world.run_for(15s);
  ClientProcess& reader = scene.world.start_client();
  const FilePtr opened = scene.open_by(reader);
  scene.expect_byte(reader, *opened, 3);
  scene.compare();
  return scene.wrong;
}

class MirrorRules : public ::testing::TestWithParam<MirrorRule> {};

TEST_P(MirrorRules, TheSceneKeepsTheRule) { expect_kept(GetParam()); }

TEST_P(MirrorRules, APlantedDefectIsFound) { expect_found(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, MirrorRules,
    ::testing::Values(MirrorRule{"OwnCopyLast", Defect::kOwnCopyFirst, read_before_it_is_mirrored},
                      MirrorRule{"EpochChecked", Defect::kEpochUnchecked, late_change},
                      MirrorRule{"LeaseShorterThanGrace", Defect::kLongLease, stale_read},
                      MirrorRule{"JoiningIsNotServing", Defect::kJoiningServes, return_with_changes},
                      MirrorRule{"NotesGoAfterTheSync", Defect::kLogDroppedEarly, crash_after_the_notes_went},
                      MirrorRule{"ReturnersNotesCount", Defect::kReturnerForgotten, change_that_one_member_has},
                      MirrorRule{"ListsAreSynced", Defect::kNotesNotSynced, crash_of_the_only_copy},
                      MirrorRule{"NotesAreSynced", Defect::kNotesNotSynced, crash_while_the_other_is_away},
                      MirrorRule{"FormerMembersHaveNothing", Defect::kFormerMemberBelieved, member_again},
                      MirrorRule{"LaterRecordsHold", Defect::kOldRecordBelieved, restored_meta_store},
                      MirrorRule{"FencesAreCopied", Defect::kFencesNotCopied, return_without_the_meta_server}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spate::cluster
