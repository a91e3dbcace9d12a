// SPDX-License-Identifier: Apache-2.0
// Listing directories.
#include <cerrno>
#include <cstring>

#include "capi/handles.h"
#include "posix/convert.h"

namespace spate::capi {
namespace {

void fill(const posix::DirectoryItem& item, spate_dirent* out) {
  std::memset(out, 0, sizeof *out);
  out->handle = item.handle.value;
  out->next = item.next;
  out->type = posix::entry_type(item.type);
  std::memcpy(out->name, item.name.data(), std::min(item.name.size(), sizeof out->name - 1));
}

/// Leaves the attributes of "." and ".." empty, because a listing does not have them.
void fill(const posix::DirectoryItem& item, struct stat* out) {
  *out = item.attributes ? posix::to_stat(*item.attributes) : (struct stat){};
}

Work read_entries(posix::OpenFile& directory, spate_dirent* entries, struct stat* st, std::size_t count) {
  std::size_t n = 0;
  for (; n < count; ++n) {
    auto item = co_await directory.next_entry(st != nullptr);
    // Return the entries that were read. The next call returns the error.
    if (!item && n == 0) co_return std::move(item).error();
    if (!item || !*item) break;
    fill(**item, &entries[n]);
    if (st != nullptr) fill(**item, &st[n]);
  }
  co_return static_cast<std::int64_t>(n);
}

}  // namespace
}  // namespace spate::capi

using namespace spate::capi;

extern "C" {

int spate_readdir(spate_file* directory, struct spate_dirent* entry) {
  if (directory == nullptr || entry == nullptr) return refuse_null("directory or entry");
  return static_cast<int>(now(directory, [=] { return read_entries(*directory->file, entry, nullptr, 1); }));
}

ssize_t spate_readdir_many(spate_file* directory, struct spate_dirent* entries, struct stat* st, size_t count) {
  if (directory == nullptr || entries == nullptr) return refuse_null("directory or entries");
  return now(directory, [=] { return read_entries(*directory->file, entries, st, count); });
}

int spate_readdir_many_start(spate_file* directory, struct spate_dirent* entries, struct stat* st, size_t count,
                             spate_op** op) {
  if (op != nullptr) *op = nullptr;
  if (directory == nullptr || entries == nullptr || op == nullptr) return refuse_null("directory, entries or op");
  return later(directory, [=] { return read_entries(*directory->file, entries, st, count); }, op);
}

}  // extern "C"
