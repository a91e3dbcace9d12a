// SPDX-License-Identifier: Apache-2.0
// PeerMemory: maps memory of a PCI device as buffers of the p2p path (docs/data-paths.md, "p2p").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "flow/buffer_pool.h"

namespace spate::flow {

/// Largest message of the p2p path, bytes. It is the clients' default unit. All buffers have one size, so that the
/// scarce memory of a device never becomes fragmented.
constexpr std::uint64_t kPeerUnitBytes = 1ULL << 20U;
constexpr std::uint64_t kPeerBufferBytes = kPeerUnitBytes + kBlockSlackBytes;

/// One mapping, cut into buffers of kPeerBufferBytes. The kernel allocates the device's memory with the mapping. It
/// frees the memory when the mapping ends, in the destructor; all buffers must be free then. Not thread-safe.
class PeerMemory final : public BufferSource {
 public:
  /// Maps `bytes` (rounded down to whole buffers, at least two) of `path`, which Linux names
  /// /sys/bus/pci/devices/DEVICE/p2pmem/allocate. Tests may name any other file that is long enough and can be mapped;
  /// then the memory is main memory.
  static Result<std::unique_ptr<PeerMemory>> map(const std::string& path, std::uint64_t bytes);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory() override;

  /// kPeerBufferBytes each; there are total_bytes() of them, and the pool asks for no more.
  MutableByteView allocate(std::uint64_t size) override;
  void free(MutableByteView memory) override;

  std::uint64_t total_bytes() const { return memory_.size(); }
  /// The path names a file that is not p2pmem of a PCI device.
  bool only_a_file() const { return only_a_file_; }
  const std::string& path() const { return path_; }

 private:
  PeerMemory(std::string path, bool only_a_file, MutableByteView memory);

  const std::string path_;
  const bool only_a_file_;
  const MutableByteView memory_;
  std::vector<std::byte*> free_;
};

}  // namespace spate::flow
