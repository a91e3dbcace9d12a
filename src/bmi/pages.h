// SPDX-License-Identifier: Apache-2.0
// Pages: memory directly from the kernel, in huge pages where available, so that fewer pages have to be registered and
// walked.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace spate::bmi {

/// A mapping of this process, or nothing (a default value, or map() without memory). Move-only. The destructor unmaps
/// the memory, so no device and no thread may use it any more.
class Pages {
 public:
  static constexpr std::size_t kHuge = std::size_t{2} << 20;  // x86-64 and arm64

  Pages() = default;
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  /// Maps at least `size` (> 0) bytes of zeros. From the size of a huge page on, it takes pages that the administrator
  /// has set aside (vm.nr_hugepages), or aligns the memory so that the kernel may use transparent huge pages. Empty:
  /// out of memory.
  static Pages map(std::size_t size);

  /// The whole memory. It is aligned to kHuge if it is at least that large, else to a page.
  MutableByteView memory() const { return memory_; }

 private:
  MutableByteView memory_;
};

}  // namespace spate::bmi
