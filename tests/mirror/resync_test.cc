// SPDX-License-Identifier: Apache-2.0
// How fast a server that returns receives what it lacks.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMirrored = 24;
constexpr std::size_t kMirroredBytes = 200'000;

WorldOptions with_rate(std::uint64_t rate) {
  WorldOptions options = mirror_options();
  options.rebuild_rate = rate;
  return options;
}

/// Files that are all in one group.
class Resync {
 public:
  explicit Resync(std::uint64_t rate) : mirrors_(with_rate(rate)), client_(mirrors_.world.start_client()) {
    for (std::size_t i = 0; i < 6 * kMirrored && files_.size() < kMirrored; ++i) make("f" + std::to_string(i));
    EXPECT_EQ(files_.size(), kMirrored);
    EXPECT_TRUE(mirrors_.become_whole()) << "a group lacks a copy";
  }

  /// The backup loses everything. How long it takes until it has all of it again, from its return on.
  Duration rebuild() {
    const ServerId lost = mirrors_.backup_of(*files_.front());
    mirrors_.kill(lost);
    mirrors_.world.run_for(5s);  // it is left out
    mirrors_.restart_empty(lost);
    watch();
    EXPECT_TRUE(mirrors_.become_whole(300s)) << "a group lacks a copy";
    EXPECT_EQ(mirrors_.differences(), "");
    return last_ - first_;
  }
  /// How many copies were begun while another one was under way.
  std::size_t together() const { return together_; }

 private:
  void make(const std::string& name) {
    client::NewObject object;
    object.layout.slot_count = 1;
    auto made =
        call(mirrors_.world, client_, client_.client().create(client::path_from_root(name), kMirrorOpen, object));
    ASSERT_OK(made);
    if (!files_.empty() && mirrors_.group_of(**made).id != mirrors_.group_of(*files_.front()).id) return;
    const Bytes data(kMirroredBytes, std::byte{9});
    ASSERT_OK(call(mirrors_.world, client_, (*made)->write(0, data)));
    files_.push_back(*std::move(made));
  }
  void watch() {
    mirrors_.world.watch().on_arrival([this](const WatchedRequest& request) {
      if (request.op != wire::Op::kMirrorForward) return;
      const MonoTime now = mirrors_.world.now();
      if (first_ == MonoTime()) first_ = now;
      if (now - last_ < 20us) ++together_;  // nothing is answered so soon
      last_ = now;
    });
  }

  MirrorWorld mirrors_;
  ClientProcess& client_;
  std::vector<std::unique_ptr<client::File>> files_;
  MonoTime first_;
  MonoTime last_;
  std::size_t together_ = 0;
};

TEST(ResyncTest, SeveralDatafilesAreCopiedAtATime) {
  Resync resync(0);
  EXPECT_LT(resync.rebuild(), 3s);
  EXPECT_GT(resync.together(), kMirrored) << "one after the other";
}

TEST(ResyncTest, TheRateIsKept) {
  Resync resync(kMirrored * kMirroredBytes / 8);
  const Duration took = resync.rebuild();
  EXPECT_GT(took, 4s);
  EXPECT_LT(took, 12s);
}

/// The server that was lost and the one that leads have both noted the last changes before the loss.
TEST(ResyncTest, ARegionThatBothHaveNotedIsCopiedOnce) {
  constexpr std::size_t kRegions = 8;
  constexpr std::uint64_t kRegionBytes = 1U << 20U;
  MirrorWorld mirrors(with_rate(0));
  ClientProcess& client = mirrors.world.start_client();
  client::NewObject object;
  object.layout.slot_count = 1;
  auto made = call(mirrors.world, client, client.client().create(client::path_from_root("f"), kMirrorOpen, object));
  ASSERT_OK(made);
  ASSERT_TRUE(mirrors.become_whole()) << "a group lacks a copy";
  const Bytes data(4096, std::byte{9});
  for (std::size_t i = 0; i < kRegions; ++i)
    ASSERT_OK(call(mirrors.world, client, (*made)->write(i * kRegionBytes, data)));
  const ServerId lost = mirrors.backup_of(**made);
  mirrors.kill(lost);
  mirrors.world.run_for(5s);  // it is left out
  std::size_t copied = 0;
  mirrors.world.watch().on_arrival([&](const WatchedRequest& request) {
    if (request.op == wire::Op::kMirrorForward && request.server == lost) ++copied;
  });
  mirrors.restart(lost);
  EXPECT_TRUE(mirrors.become_whole()) << "a group lacks a copy";
  EXPECT_GE(copied, kRegions);
  EXPECT_LE(copied, 2 * kRegions + 1) << "data and holes of each region, and the end";
  EXPECT_EQ(mirrors.differences(), "");
}

}  // namespace
}  // namespace spate::cluster
