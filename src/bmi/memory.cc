// SPDX-License-Identifier: Apache-2.0
#include "bmi/memory.h"

#include <cstdlib>

#include "base/check.h"

namespace spate::bmi {

MutableByteView MemoryService::allocate(std::span<Module* const> modules, std::size_t size) {
  if (size == 0) return {};
  Module* owner = nullptr;
  MutableByteView memory;
  for (Module* module : modules) {
    memory = module->mem_alloc(size);
    if (memory.empty()) continue;
    owner = module;
    break;
  }
  if (owner == nullptr) {
    constexpr std::size_t kPage = Buffer::kPageAlignment;
    const std::size_t rounded = (size + kPage - 1) / kPage * kPage;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kPage, rounded));
    SPATE_CHECK(data != nullptr && rounded >= size);
    memory = {data, size};
  }
  for (Module* module : modules) {
    // What a module cannot register it moves like any other memory.
    if (module != owner) (void)module->mem_register(memory).has_value();
  }
  const std::lock_guard lock(mutex_);
  owners_.emplace(memory.data(), owner);
  return memory;
}

void MemoryService::free(std::span<Module* const> modules, MutableByteView memory) {
  if (memory.empty()) return;
  Module* owner = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(memory.data());
    SPATE_CHECK(found != owners_.end());
    owner = found->second;
    owners_.erase(found);
  }
  for (Module* module : modules) {
    if (module != owner) module->mem_deregister(memory);
  }
  if (owner != nullptr) {
    owner->mem_free(memory);
  } else {
    std::free(memory.data());
  }
}

}  // namespace spate::bmi
