// SPDX-License-Identifier: Apache-2.0
#include "flow/peer_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>

#include "base/check.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace spate::flow {
namespace {

constexpr long kSysfs = 0x62656572;  // SYSFS_MAGIC

bool in_sysfs(int fd) {
  struct statfs fs{};
  return ::fstatfs(fd, &fs) == 0 && static_cast<long>(fs.f_type) == kSysfs;
}

/// Checks the length because an access beyond the end of a mapped file would end the process.
bool long_enough(int fd, std::uint64_t bytes) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && static_cast<std::uint64_t>(st.st_size) >= bytes;
}

}  // namespace

Result<std::unique_ptr<PeerMemory>> PeerMemory::map(const std::string& path, std::uint64_t bytes) {
  bytes = bytes / kPeerBufferBytes * kPeerBufferBytes;
  if (bytes < 2 * kPeerBufferBytes)
    return Error(Errc::kInvalidArgument, "peer memory: at least " + format_size(2 * kPeerBufferBytes));
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return errno_error(errno, path);
  const bool only_a_file = !in_sysfs(fd.get());
  if (only_a_file && !long_enough(fd.get(), bytes))
    return Error(Errc::kInvalidArgument, path + " is no file of " + format_size(bytes));
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return errno_error(errno, "map " + format_size(bytes) + " of " + path);
  return std::unique_ptr<PeerMemory>(new PeerMemory(path, only_a_file, {static_cast<std::byte*>(at), bytes}));
}

PeerMemory::PeerMemory(std::string path, bool only_a_file, MutableByteView memory)
    : path_(std::move(path)), only_a_file_(only_a_file), memory_(memory) {
  for (std::size_t at = memory_.size(); at > 0; at -= kPeerBufferBytes)
    free_.push_back(memory_.data() + at - kPeerBufferBytes);
}

PeerMemory::~PeerMemory() {
  SPATE_CHECK(free_.size() * kPeerBufferBytes == memory_.size());
  ::munmap(memory_.data(), memory_.size());
}

MutableByteView PeerMemory::allocate(std::uint64_t size) {
  SPATE_CHECK(size == kPeerBufferBytes && !free_.empty());
  std::byte* const memory = free_.back();
  free_.pop_back();
  return {memory, size};
}

void PeerMemory::free(MutableByteView memory) { free_.push_back(memory.data()); }

}  // namespace spate::flow
