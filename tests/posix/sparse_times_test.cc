// SPDX-License-Identifier: Apache-2.0
// Reserved space and holes set the time of a file, as on the kernel's file system.
#include <fcntl.h>
#include <linux/falloc.h>

#include "tests/posix/pair.h"

namespace spate::posix_test {
namespace {

constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

/// Changes a file whose times were set, and compares what fstat tells before and after.
void times_after(const std::string& contents, int mode, std::int64_t offset) {
  SCOPED_TRACE("a file of " + std::to_string(contents.size()) + " bytes, mode " + std::to_string(mode) + " at " +
               std::to_string(offset));
  Pair pair;
  const auto fd =
      static_cast<int>(pair.same("open", [](Frontend& f) { return f.open("/file", O_RDWR | O_CREAT, 0644); }).number);
  if (!contents.empty()) pair.same("write", [&](Frontend& f) { return f.write(fd, contents); });
  pair.same("utimens", [](Frontend& f) { return f.utimens("/file", 77, 77); });
  pair.same("fstat before", [&](Frontend& f) { return f.fstat(fd); });
  pair.same("fallocate", [&](Frontend& f) { return f.fallocate(fd, mode, offset, 3000); });
  pair.same("fstat after", [&](Frontend& f) { return f.fstat(fd); });
  pair.same("close", [&](Frontend& f) { return f.close(fd); });
  pair.same_tree("the close");
}

TEST(SparseTimes, ReservedSpaceSetsTheTime) {
  for (const std::string& contents : {std::string(), std::string(9000, 'x')}) {
    for (const int mode : {0, FALLOC_FL_KEEP_SIZE}) {
      for (const std::int64_t offset : {0, 4000, 20'000}) times_after(contents, mode, offset);
    }
  }
}

TEST(SparseTimes, AHoleSetsTheTimeAlsoBehindTheEnd) {
  for (const std::string& contents : {std::string(), std::string(9000, 'x')}) {
    for (const std::int64_t offset : {0, 4000, 20'000}) times_after(contents, kHole, offset);
  }
}

}  // namespace
}  // namespace spate::posix_test
