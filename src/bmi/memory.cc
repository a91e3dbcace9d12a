// SPDX-License-Identifier: Apache-2.0
#include "bmi/memory.h"

#include <cstdlib>
#include <utility>

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
  Owner kept;
  kept.module = owner;
  if (owner == nullptr && size >= Pages::kHuge) {
    kept.pages = Pages::map(size);
    SPATE_CHECK(!kept.pages.memory().empty());
    memory = kept.pages.memory().first(size);
  } else if (owner == nullptr) {
    constexpr std::size_t kPage = Buffer::kPageAlignment;
    kept.heap.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, (size + kPage - 1) / kPage * kPage)));
    SPATE_CHECK(kept.heap != nullptr);
    memory = {kept.heap.get(), size};
  }
  for (Module* module : modules) {
    // A module moves memory that it cannot register like any other memory.
    if (module != owner) (void)module->mem_register(memory).has_value();
  }
  const std::lock_guard lock(mutex_);
  owners_.emplace(memory.data(), std::move(kept));
  return memory;
}

void MemoryService::free(std::span<Module* const> modules, MutableByteView memory) {
  if (memory.empty()) return;
  Owner owner;
  {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(memory.data());
    SPATE_CHECK(found != owners_.end());
    owner = std::move(found->second);
    owners_.erase(found);
  }
  for (Module* module : modules) {
    if (module != owner.module) module->mem_deregister(memory);
  }
  if (owner.module != nullptr) owner.module->mem_free(memory);
}

}  // namespace spate::bmi
