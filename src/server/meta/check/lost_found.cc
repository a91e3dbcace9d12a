// SPDX-License-Identifier: Apache-2.0
// /lost+found: gives names to objects that have none.
#include "server/meta/check/repair.h"
#include "server/meta/core/core.h"
#include "server/meta/names/objects.h"

namespace spate::meta {
namespace {

constexpr std::string_view kLostFound = "lost+found";
constexpr unsigned kMaxTries = 1000;

job::Task<Result<InodeRecord>> make_lost_found(Operation& operation, InodeRecord root) {
  wire::NewAttributes attributes;
  attributes.mode = 0700;  // the objects may come from a private directory
  const NewObject params{FileType::kDirectory, attributes, {}};
  SPATE_CO_TRY(InodeRecord made, co_await make_object(operation, root, params));
  touch_entries(root, operation.now(), 1, 1);
  operation.put(root);
  operation.put_entry(kRootHandle, kLostFound, EntryRecord{made.handle(), FileType::kDirectory});
  co_return made;
}

/// The directory, locked. If it is new, it is not put yet.
job::Task<Result<InodeRecord>> lost_found(Operation& operation) {
  SPATE_CO_TRY(std::ignore, operation.lock({kRootHandle}));
  SPATE_CO_TRY(InodeState root, co_await inode_state(operation, kRootHandle));
  if (!root.directory())
    co_return Error(Errc::kCorrupt, "the root directory is missing: that has to be repaired first");
  std::string name(kLostFound);
  SPATE_CO_TRY(const auto entry, co_await operation.entry(kRootHandle, std::move(name)));
  if (!entry) {
    auto made = co_await make_lost_found(operation, std::move(root.record));
    co_return made;
  }
  SPATE_CO_TRY(std::ignore, operation.lock({entry->handle}));
  SPATE_CO_TRY(InodeState there, co_await inode_state(operation, entry->handle));
  if (!there.directory()) {
    co_return Error::told(Errc::kNotDirectory,
                          "/lost+found cannot be used: give it another name with `spate mv`, or remove it");
  }
  co_return std::move(there.record);
}

/// A name for the object that is free in the directory.
job::Task<Result<std::string>> free_name(Operation& operation, Handle directory, Handle object) {
  const std::string usual = "#" + std::to_string(object.value);
  for (unsigned i = 0; i < kMaxTries; ++i) {
    std::string name = i == 0 ? usual : usual + "." + std::to_string(i);
    std::string asked = name;
    SPATE_CO_TRY(const auto taken, co_await operation.entry(directory, std::move(asked)));
    if (!taken) co_return name;
  }
  co_return Error(Errc::kExists, "/lost+found/" + usual + ": empty /lost+found first");
}

}  // namespace

job::Task<Result<std::string>> put_in_lost_found(Operation& operation, InodeRecord& object) {
  SPATE_CO_TRY(InodeRecord place, co_await lost_found(operation));
  SPATE_CO_TRY(const std::string name, co_await free_name(operation, place.handle(), object.handle()));
  touch_entries(place, operation.now(), 1, object.is_directory() ? 1 : 0);
  operation.put(place);
  operation.put_entry(place.handle(), name, EntryRecord{object.handle(), object.attributes.type});
  object.parent = place.handle();
  object.second_parent = Handle();
  if (!object.is_directory()) object.attributes.link_count = 1;
  touch(object, operation.now());
  operation.put(object);
  co_return "/" + std::string(kLostFound) + "/" + name;
}

job::Task<Result<void>> take_entry(Operation& operation, Handle directory, std::string name, bool of_directory) {
  operation.erase_entry(directory, name);
  SPATE_CO_TRY(InodeState inode, co_await inode_state(operation, directory));
  if (!inode.directory()) co_return {};
  const Attributes& a = inode.record.attributes;
  touch_entries(inode.record, operation.now(), a.size > 0 ? -1 : 0, of_directory && a.link_count > 2 ? -1 : 0);
  operation.put(inode.record);
  co_return {};
}

}  // namespace spate::meta
