// SPDX-License-Identifier: Apache-2.0
#include "flow/peer_memory.h"

#include <sys/mman.h>

#include <set>

#include "base/expect.h"
#include "base/unique_fd.h"

namespace spate::flow {
namespace {

class PeerMemoryTest : public testing::Test {
 protected:
  PeerMemoryTest() : fd_(::memfd_create("peer", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_.get())) {}
  void grow(std::uint64_t bytes) { ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(bytes)), 0); }

  UniqueFd fd_;
  std::string path_;
};

TEST_F(PeerMemoryTest, IsCutIntoBuffersThatLieInTheMappedFile) {
  grow(4 * kPeerBufferBytes);
  auto memory = PeerMemory::map(path_, 4 * kPeerBufferBytes - 1).value();
  EXPECT_EQ(memory->total_bytes(), 3 * kPeerBufferBytes);
  EXPECT_TRUE(memory->only_a_file());
  std::set<std::byte*> seen;
  for (int i = 0; i < 3; ++i) {
    const MutableByteView buffer = memory->allocate(kPeerBufferBytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
    std::fill(buffer.begin(), buffer.end(), static_cast<std::byte>(i + 1));
    seen.insert(buffer.data());
  }
  EXPECT_EQ(seen.size(), 3U);
  Bytes content(3 * kPeerBufferBytes);
  ASSERT_EQ(::pread(fd_.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(content[i * kPeerBufferBytes], static_cast<std::byte>(i + 1));
  for (std::byte* const at : seen) memory->free({at, kPeerBufferBytes});
  std::byte* const again = memory->allocate(kPeerBufferBytes).data();
  EXPECT_TRUE(seen.contains(again)) << static_cast<void*>(again) << " is none of the freed buffers";
  memory->free({*seen.begin(), kPeerBufferBytes});
}

TEST_F(PeerMemoryTest, AFileThatCannotBeMappedIsNamedInTheError) {
  grow(kPeerBufferBytes);
  EXPECT_ERRC(PeerMemory::map(path_, 2 * kPeerBufferBytes), Errc::kInvalidArgument) << "the file is too short";
  EXPECT_ERRC(PeerMemory::map(path_, kPeerBufferBytes), Errc::kInvalidArgument) << "one buffer is too few";
  const auto absent = PeerMemory::map("/sys/bus/pci/devices/none/p2pmem/allocate", 1U << 30U);
  EXPECT_ERRC(absent, Errc::kNotFound);
  EXPECT_NE(absent.error().message().find("/sys/bus/pci/devices/none"), std::string::npos);
  EXPECT_ERRC(PeerMemory::map("/dev/null", 1U << 30U), Errc::kInvalidArgument);
  EXPECT_ERRC(PeerMemory::map("/proc/self/status", 1U << 30U), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace spate::flow
