// SPDX-License-Identifier: Apache-2.0
// MemoryService: mem_alloc and mem_free of the core, for memory that every loaded module can use.
#pragma once

#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "bmi/module.h"
#include "bmi/pages.h"

namespace spate::bmi {

/// Life cycle: construct -> allocate() and free() -> destroyed, when everything is freed; the destructor calls no
/// module. Pass the same modules to all calls. Thread-safe: calls of modules are made without the lock.
class MemoryService {
 public:
  /// Allocates page-aligned memory: from the first module that allocates its own, else in huge pages where they pay
  /// (pages.h), else from the heap. Registers it with the other modules; memory that a module cannot register moves
  /// like any other. `size` 0 yields nothing. Ends the process if memory is exhausted, as operator new does.
  MutableByteView allocate(std::span<Module* const> modules, std::size_t size);
  /// Frees memory that allocate() returned; anything else is a bug, except empty memory. No operation may use it any
  /// more.
  void free(std::span<Module* const> modules, MutableByteView memory);

 private:
  struct Owner {
    Module* module = nullptr;
    Pages pages;  // or
    std::unique_ptr<std::byte, decltype(&std::free)> heap{nullptr, &std::free};
  };

  std::mutex mutex_;
  std::unordered_map<std::byte*, Owner> owners_;  // guarded by mutex_
};

}  // namespace spate::bmi
