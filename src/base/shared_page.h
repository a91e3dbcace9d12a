// SPDX-License-Identifier: Apache-2.0
// SharedPage: one page of a file, mapped and shared with other processes.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/result.h"

namespace spate {

/// Move-only; the destructor unmaps the page. The descriptor may be closed after map().
class SharedPage {
 public:
  static constexpr std::size_t kBytes = 4096;

  SharedPage() = default;
  /// Maps the first page of `fd`. kCorrupt: the file is shorter than a page.
  static Result<SharedPage> map(int fd, bool writable);
  SharedPage(SharedPage&& other) noexcept;
  SharedPage& operator=(SharedPage&& other) noexcept;
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  ~SharedPage();

  explicit operator bool() const { return memory_ != nullptr; }
  std::byte* data() const { return memory_; }

 private:
  std::byte* memory_ = nullptr;
};

}  // namespace spate
