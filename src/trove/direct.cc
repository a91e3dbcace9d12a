// SPDX-License-Identifier: Apache-2.0
#include "trove/direct.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/retried.h"
#include "base/unique_fd.h"

namespace spate::trove {
namespace {

/// A block of nearly every file system, and a page of the page cache. A file system may ask for a larger alignment. A
/// smaller one is raised to this, so that no page is ever half direct and half cached.
constexpr std::uint32_t kLeastAlignment = 4096;
constexpr std::uint32_t kMostAlignment = 64 * 1024;

#ifndef STATX_DIOALIGN
constexpr unsigned kDioAlign = 0x2000U;  // Linux 6.1; the header may be older than the kernel
#else
constexpr unsigned kDioAlign = STATX_DIOALIGN;
#endif

/// Offsets in struct statx as the kernel fills it, of two fields that older headers lack: stx_dio_mem_align,
/// stx_dio_offset_align.
constexpr std::size_t kDioMemAlignAt = 0x98;
constexpr std::size_t kDioOffsetAlignAt = 0x9c;

/// The alignment that the kernel names; 0: no direct access; kLeastAlignment if the kernel does not tell.
std::uint32_t named_alignment(int fd) {
  alignas(8) std::array<std::byte, 256> raw{};
  if (::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, kDioAlign, raw.data()) != 0) return kLeastAlignment;
  std::uint32_t mask = 0;
  std::uint32_t memory = 0;
  std::uint32_t offset = 0;
  std::memcpy(&mask, raw.data(), sizeof mask);
  std::memcpy(&memory, raw.data() + kDioMemAlignAt, sizeof memory);
  std::memcpy(&offset, raw.data() + kDioOffsetAlignAt, sizeof offset);
  if ((mask & kDioAlign) == 0) return kLeastAlignment;
  if (memory == 0 || offset == 0) return 0;
  return std::max({memory, offset, kLeastAlignment});
}

}  // namespace

DirectAbility probe_direct(const std::string& file, bool in_memory) {
  if (in_memory) return {0, "the target lies on a file system that is memory: there is no device to read from"};
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return {0, "the target's file system refuses O_DIRECT (" + errno_error(errno, "open").message() + ")"};
  const std::uint32_t alignment = named_alignment(fd.get());
  if (alignment == 0) return {0, "the target's file system refuses O_DIRECT"};
  if (alignment > kMostAlignment || (alignment & (alignment - 1)) != 0) {
    return {0, "the target's file system wants O_DIRECT aligned to " + std::to_string(alignment) + " bytes"};
  }
  return {alignment, {}};
}

Result<void> probe_device_memory(const std::string& file, MutableByteView memory) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno_error(errno, "open past the page cache");
  if (retried([&] { return ::pread(fd.get(), memory.data(), memory.size(), 0); }) >= 0) return {};
  if (errno != EREMOTEIO) return errno_error(errno, "read to a device's memory");
  return Error(Errc::kNotSupported, "the target's device cannot reach the p2p device's memory (EREMOTEIO)");
}

Errc direct_errc(const BytestreamRequest& request, int error_number) {
  return request.device_memory && error_number == EREMOTEIO ? Errc::kNotSupported : errc_from_errno(error_number);
}

std::uint64_t direct_read_limit(std::span<const Extent> extents, std::uint64_t file_size) {
  std::uint64_t total = 0;
  for (const Extent& extent : extents) {
    if (extent.offset >= file_size) break;
    total += extent.size;
  }
  return total;
}

}  // namespace spate::trove
