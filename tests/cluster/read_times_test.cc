// SPDX-License-Identifier: Apache-2.0
// Reads set atime with the close. An atime that the client sets in between wins.
#include "tests/cluster/queueing_test.h"

namespace spate::cluster {
namespace {

using client::path_from_root;
using std::chrono::seconds;

class ReadTimesTest : public QueueingTest {
 protected:
  /// An open that has read the file, in such a way that the read sets atime.
  std::unique_ptr<client::File> open_that_has_read(ClientProcess& process, const std::string& path) {
    auto made = run(process, process.client().create(path_from_root(path), kReadWrite, {}));
    EXPECT_OK(made) << path;
    EXPECT_OK(run(process, (*made)->write(0, Bytes(10)))) << path;
    EXPECT_OK(run(process, (*made)->close())) << path;
    world_.run_for(seconds(1));
    auto file = run(process, process.client().open(path_from_root(path), wire::kOpenRead));
    EXPECT_OK(file) << path;
    Bytes memory(10);
    EXPECT_OK(run(process, (*file)->read(0, memory))) << path;
    return *std::move(file);
  }
  Result<Attributes> set_atime(ClientProcess& process, const std::string& path) {
    wire::SetattrRequest request;
    request.where = path_from_root(path);
    request.atime = kChosen;
    return run(process, process.client().setattr(request));
  }

  static constexpr WallTime kChosen{5};
};

TEST_F(ReadTimesTest, AnAtimeThatIsSetWinsOverEarlierReads) {
  for (ClientProcess* const process : {a_, b_}) {
    const std::string path = process == a_ ? "d/queued" : "asked";
    const auto file = open_that_has_read(*process, path);
    EXPECT_OK(set_atime(*process, path));
    EXPECT_OK(run(*process, file->close()));
    EXPECT_EQ(stat(*process, path)->atime, kChosen) << path;
    EXPECT_EQ(stat(*b_, path)->atime, kChosen) << path;
  }
}

TEST_F(ReadTimesTest, AReadAfterAnAtimeWasSetCounts) {
  for (ClientProcess* const process : {a_, b_}) {
    const std::string path = process == a_ ? "d/queued" : "asked";
    const auto file = open_that_has_read(*process, path);
    EXPECT_OK(set_atime(*process, path));
    Bytes memory(10);
    EXPECT_OK(run(*process, file->read(0, memory)));
    EXPECT_OK(run(*process, file->close()));
    EXPECT_GT(stat(*b_, path)->atime, kChosen) << path;
  }
}

}  // namespace
}  // namespace spate::cluster
