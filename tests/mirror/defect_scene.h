// SPDX-License-Identifier: Apache-2.0
// DefectScene: the world of a scene for a rule of mirrored files. MirrorRule: a rule with its scene.
#pragma once

#include <cstdio>
#include <string>

#include "base/expect.h"
#include "model/defect.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {

inline constexpr std::uint64_t kSceneBytes = 9000;

inline Bytes filled(std::uint8_t with) { return Bytes(kSceneBytes, static_cast<std::byte>(with)); }

/// The world of a scene, with a file of one datafile that holds filled(1). Errors are collected in `wrong`.
class DefectScene {
 public:
  DefectScene(Defect defect, const WorldOptions& options)
      : mirrors(options), world(mirrors.world), client(world.start_client()) {
    planted_defect = defect;
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made = call(world, client, client.client().create(client::path_from_root("f"), kMirrorOpen, object));
    SPATE_CHECK(made.has_value());
    file = *std::move(made);
    write(filled(1));
    primary = mirrors.primary_of(*file);
    backup = mirrors.backup_of(*file);
  }
  ~DefectScene() { planted_defect = Defect::kNone; }

  void write(const Bytes& data) {
    const auto done = call(world, client, file->write(0, data));
    if (!done) wrong += "a write fails; ";
  }
  std::unique_ptr<client::File> open_by(ClientProcess& process) {
    auto opened = call(world, process, process.client().open(client::path_from_root("f"), kMirrorOpen));
    SPATE_CHECK(opened.has_value());
    return *std::move(opened);
  }
  std::byte first_byte(ClientProcess& process, client::File& of) {
    Bytes found(kSceneBytes);
    const auto got = call(world, process, of.read(0, found));
    if (!got) wrong += "a read fails; ";
    return found[0];
  }
  void expect_byte(ClientProcess& process, client::File& of, std::uint8_t with) {
    if (first_byte(process, of) != static_cast<std::byte>(with)) wrong += "a read sees something else; ";
  }
  void compare() {
    if (!mirrors.become_whole()) wrong += "a group does not become whole; ";
    wrong += mirrors.differences();
  }
  void cut_one_way(ServerId from, ServerId to, bool on) {
    world.fabric().links().partition_one_way(from.value, to.value, on);
  }

  MirrorWorld mirrors;
  World& world;
  ClientProcess& client;
  std::unique_ptr<client::File> file;
  ServerId primary;
  ServerId backup;
  std::string wrong;
};

/// The scene yields what is wrong; empty: nothing.
struct MirrorRule {
  const char* name;
  Defect defect;
  std::string (*scene)(Defect, std::uint64_t seed);
};

/// The scene must succeed with the code as it is.
inline void expect_kept(const MirrorRule& rule) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(rule.scene(Defect::kNone, seed), "") << seed;
}

/// The scene must fail when the rule's defect is planted.
inline void expect_found(const MirrorRule& rule) {
  std::string found;
  for (std::uint64_t seed = 1; seed <= 20 && found.empty(); ++seed) found = rule.scene(rule.defect, seed);
  std::printf("%s: %s\n", rule.name, found.c_str());
  EXPECT_NE(found, "");
}

}  // namespace spate::cluster
