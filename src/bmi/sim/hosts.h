// SPDX-License-Identifier: Apache-2.0
// Hosts: the machines of the nodes of a simulated network: which nodes share a machine, and the files of their
// descriptors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::bmi::sim {

/// One thread, that of the fabric.
class Hosts {
 public:
  /// Reads a file segment: at most out.size() bytes of `fd` at `offset`, as seen on `node`. 0: the end of the file.
  using FileReader =
      std::function<Result<std::size_t>(std::uint32_t node, int fd, std::uint64_t offset, MutableByteView out)>;
  /// Makes a copy of `node`'s descriptor `fd` for another process of the same machine.
  using DescriptorCopier = std::function<Result<int>(std::uint32_t node, int fd)>;

  Hosts();
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  /// The default reader is pread. A simulated store uses numbers of its own as descriptors and sets a reader for them.
  void set_file_reader(FileReader reader) { file_reader_ = std::move(reader); }
  /// Without a copier no descriptor can be passed. The copies are numbers that no kernel gives, so closing them does
  /// nothing.
  void set_descriptor_copier(DescriptorCopier copier) { descriptor_copier_ = std::move(copier); }
  /// Puts `node` on the machine of another node. The two can pass each other descriptors, and know each other's uid,
  /// which is 0.
  void put_on_machine_of(std::uint32_t node, std::uint32_t other) { machines_[node] = other; }
  bool same_machine(std::uint32_t a, std::uint32_t b) const { return machine_of(a) == machine_of(b); }

  Result<std::size_t> read_file(std::uint32_t node, int fd, std::uint64_t offset, MutableByteView out) const {
    return file_reader_(node, fd, offset, out);
  }
  bool copies_descriptors() const { return descriptor_copier_ != nullptr; }
  Result<int> copy_descriptor(std::uint32_t node, int fd) const { return descriptor_copier_(node, fd); }

 private:
  std::uint32_t machine_of(std::uint32_t node) const {
    const auto found = machines_.find(node);
    return found == machines_.end() ? node : found->second;
  }

  FileReader file_reader_;
  DescriptorCopier descriptor_copier_;
  std::map<std::uint32_t, std::uint32_t> machines_;  // of nodes that share another node's machine
};

}  // namespace spate::bmi::sim
