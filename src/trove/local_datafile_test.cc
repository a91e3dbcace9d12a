// SPDX-License-Identifier: Apache-2.0
// Size and change counter of a datafile that is being written.
#include "trove/local_datafile.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/expect.h"

namespace spate::trove {
namespace {

/// A client believes the reply with the greater counter, and the last writer to close tells the file's size. So a
/// counter must never be paired with a size from before the change that it counts.
TEST(LocalDatafile, NoStatPairsACounterWithTheSizeFromBeforeThatChange) {
  constexpr std::uint64_t kWrites = 20000;
  LocalDatafile datafile({}, UniqueFd(::memfd_create("datafile", MFD_CLOEXEC)), {}, nullptr);
  ASSERT_GE(datafile.fd(), 0);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= kWrites; ++i) {
      const ChangeScope change(datafile, WallTime{0});  // counts one at its begin and one at its end
      if (::ftruncate(datafile.fd(), static_cast<off_t>(i)) != 0) break;
    }
    done = true;
  });
  std::uint64_t wrong = 0;
  BytestreamStat stat;
  do {
    if (datafile.stat(stat) != Errc::kOk) break;
    wrong += stat.size < stat.change_counter / 2 ? 1 : 0;
  } while (!done);
  writer.join();
  EXPECT_EQ(wrong, 0U);
  ASSERT_EQ(datafile.stat(stat), Errc::kOk);
  EXPECT_EQ(stat.size, kWrites);
  EXPECT_EQ(stat.change_counter, 2 * kWrites);
}

}  // namespace
}  // namespace spate::trove
