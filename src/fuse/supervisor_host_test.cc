// SPDX-License-Identifier: Apache-2.0
#include "fuse/supervisor_host.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/check.h"
#include "base/expect.h"

namespace spate::fuse {
namespace {

class UpgradeTest : public ::testing::Test {
 protected:
  UpgradeTest() { SPATE_CHECK(::mkdtemp(folder_.data()) != nullptr); }
  ~UpgradeTest() override { std::filesystem::remove_all(folder_); }

  /// A program that takes over from programs of these versions only.
  std::string program_of(const std::string& versions) const {
    std::string path = folder_ + "/spate-mount";
    std::ofstream(path) << "#!/bin/sh\ncase ${1#--can-take-over=} in " << versions << ") exit 0 ;; esac\nexit 1\n";
    ::chmod(path.c_str(), 0700);
    return path;
  }

  const MountOptions options;
  SystemHost host{options, {}};

 private:
  std::string folder_ = "/tmp/spate-upgrade-XXXXXX";
};

TEST_F(UpgradeTest, RefusesAProgramThatWouldLeaveSetuidAndSetgid) {
  EXPECT_EQ(host.check_program(program_of("2|3")).code(), Errc::kVersionMismatch);
}

TEST_F(UpgradeTest, TakesAProgramThatKnowsTheRunningOnesVersion) {
  EXPECT_OK(host.check_program(program_of("2|3|4|5")));
}

}  // namespace
}  // namespace spate::fuse
