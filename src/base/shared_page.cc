// SPDX-License-Identifier: Apache-2.0
#include "base/shared_page.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace spate {

Result<SharedPage> SharedPage::map(int fd, bool writable) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return errno_error(errno, "map a shared page");
  if (st.st_size < static_cast<off_t>(kBytes)) return Error(Errc::kCorrupt, "the file is too short for a shared page");
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  void* const memory = ::mmap(nullptr, kBytes, protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return errno_error(errno, "map a shared page");
  SharedPage page;
  page.memory_ = static_cast<std::byte*>(memory);
  return page;
}

SharedPage::SharedPage(SharedPage&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}

SharedPage& SharedPage::operator=(SharedPage&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

SharedPage::~SharedPage() {
  if (memory_ != nullptr) ::munmap(memory_, kBytes);
}

}  // namespace spate
