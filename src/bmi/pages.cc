// SPDX-License-Identifier: Apache-2.0
#include "bmi/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace spate::bmi {
namespace {

std::byte* map_anonymous(std::size_t size, int flags) {
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

std::size_t rounded_up(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

/// Makes a larger mapping and cuts it to its aligned part.
std::byte* map_aligned(std::size_t size) {
  std::byte* const whole = map_anonymous(size + Pages::kHuge, 0);
  if (whole == nullptr) return nullptr;
  const std::size_t before = (Pages::kHuge - reinterpret_cast<std::uintptr_t>(whole) % Pages::kHuge) % Pages::kHuge;
  if (before > 0) ::munmap(whole, before);
  ::munmap(whole + before + size, Pages::kHuge - before);
  ::madvise(whole + before, size, MADV_HUGEPAGE);  // a kernel without huge pages uses small ones
  return whole + before;
}

}  // namespace

Pages Pages::map(std::size_t size) {
  Pages pages;
  const bool large = size >= kHuge;
  const std::size_t wanted = rounded_up(size, large ? kHuge : static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  if (wanted < size) return pages;
  std::byte* at = large ? map_anonymous(wanted, MAP_HUGETLB) : nullptr;
  if (at == nullptr) at = large ? map_aligned(wanted) : map_anonymous(wanted, 0);
  if (at != nullptr) pages.memory_ = {at, wanted};
  return pages;
}

Pages::Pages(Pages&& other) noexcept : memory_(std::exchange(other.memory_, MutableByteView())) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

Pages::~Pages() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
}

}  // namespace spate::bmi
