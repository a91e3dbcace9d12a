// SPDX-License-Identifier: Apache-2.0
// Memory of collective accesses, which a file keeps from one access to the next.
#pragma once

#include <cstddef>
#include <memory>

namespace spate::mpiio {

/// Memory that is not initialized and only grows. Not thread-safe.
class Buffer {
 public:
  /// Memory for `bytes`, whose contents are undefined; null if it never had any. Earlier results of fit() are invalid.
  char* fit(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();  // the old memory goes before the new one comes
      memory_ = std::make_unique_for_overwrite<char[]>(bytes);
      bytes_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<char[]> memory_;
  std::size_t bytes_ = 0;
};

/// The memory of one access in two phases. It is kept because new memory costs as much time as two copies of the data:
/// the kernel clears it.
struct CollectiveBuffers {
  Buffer out;     // between this rank's memory and the aggregators
  Buffer in;      // between the ranks and this aggregator
  Buffer packed;  // this rank's data in the order of its stream
  Buffer data;    // the aggregator's ranges of the file
};

}  // namespace spate::mpiio
