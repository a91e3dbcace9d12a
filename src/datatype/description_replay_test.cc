// SPDX-License-Identifier: Apache-2.0
// Runs the fuzzer's corpus, so that what it once found stays found in every build.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

TEST(DescriptionFuzz, TheCorpusRunsThrough) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SPATE_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    ++files;
  }
  EXPECT_GE(files, 10U);
}

}  // namespace
