// SPDX-License-Identifier: Apache-2.0
// posix_folder_oracle LOCAL TESTED OBSERVER SEED CALLS: makes the same random calls in two empty folders, TESTED of a
// mount and LOCAL of the kernel's own file system, and compares results and trees. OBSERVER: the folder TESTED on
// another mount. The paths of LOCAL and TESTED have the same length, so that links to absolute paths do.
#include <cstdio>
#include <string>

#include "tests/posix/random_calls.h"

namespace {

std::uint64_t number(const char* text) { return std::stoull(text); }

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 6 || std::string(argv[1]).size() != std::string(argv[2]).size()) {
    std::fprintf(stderr, "usage: posix_folder_oracle LOCAL TESTED OBSERVER SEED CALLS\n");
    return 2;
  }
  using namespace spate::posix_test;
  Pair pair(make_kernel_frontend(argv[1]), make_kernel_frontend(argv[2]));
  const auto observer = make_kernel_frontend(argv[3]);
  make_random_calls(number(argv[4]), static_cast<int>(number(argv[5])), pair, observer.get());
  return testing::Test::HasFailure() ? 1 : 0;
}
