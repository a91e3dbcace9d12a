// SPDX-License-Identifier: Apache-2.0
// Waits for operations that were started.
#include <cerrno>

#include "capi/handles.h"

namespace spate::capi {
namespace {

/// Takes the result of an operation that has ended, and frees it.
std::int64_t take_result(spate_op* op) noexcept {
  std::unique_ptr<spate_op> owned(op);
  spate_fs* const fs = op->fs;
  const std::int64_t result = conclude(op->task->value(), op->name);
  if (op->file != nullptr) --op->file->started;
  owned.reset();
  --fs->in_use;  // the last access, because another thread may disconnect after it
  return result;
}

std::int64_t wait_for_any(spate_op* const* ops, std::size_t count, ssize_t* result) {
  std::vector<client::Driver::Started*> tasks;
  std::vector<std::size_t> places;
  client::Driver* driver = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    if (ops[i] == nullptr) continue;
    client::Driver& its = ops[i]->fs->process->driver();
    if (driver != nullptr && driver != &its) return refuse_argument("the operations belong to several file systems");
    driver = &its;
    tasks.push_back(ops[i]->task.get());
    places.push_back(i);
  }
  if (driver == nullptr) return refuse_argument("no operation to wait for");
  const std::size_t place = places[driver->wait_any(tasks)];
  *result = take_result(ops[place]);
  return static_cast<std::int64_t>(place);
}

}  // namespace
}  // namespace spate::capi

using namespace spate::capi;

extern "C" {

ssize_t spate_wait(spate_op* op) {
  if (op == nullptr) return refuse_null("op");
  op->fs->process->driver().wait(*op->task);
  return take_result(op);
}

int spate_test(spate_op* op, ssize_t* result) {
  if (op == nullptr || result == nullptr) return refuse_null("op or result");
  if (!op->fs->process->driver().test(*op->task)) return 0;
  *result = take_result(op);
  return 1;
}

ssize_t spate_wait_any(spate_op* const* ops, size_t count, ssize_t* result) {
  if (ops == nullptr || result == nullptr) return refuse_null("ops or result");
  try {
    return wait_for_any(ops, count, result);
  } catch (const std::bad_alloc&) {
    return refuse(spate::Errc::kNoMemory);
  }
}

}  // extern "C"
