// SPDX-License-Identifier: Apache-2.0
// Repairs of objects: their link counts, their names and their parents.
#include "server/meta/check/repair.h"
#include "server/meta/core/core.h"
#include "server/meta/names/objects.h"

namespace spate::meta {
namespace {

/// The finding's inode, if it has not changed since its names were counted; otherwise the reply reports the change.
job::Task<Result<std::optional<InodeRecord>>> counted_inode(Repair& repair) {
  SPATE_CO_TRY(InodeState inode, co_await inode_state(repair.operation, repair.finding.handle));
  if (!inode.readable()) co_return std::optional<InodeRecord>();
  if (inode.record.attributes.version != repair.finding.version) {
    repair.changed();
    co_return std::optional<InodeRecord>();
  }
  co_return std::move(inode.record);
}

/// The finding's object and the entry that leads to it, if both are as the finding says.
struct NamedObject {
  InodeRecord inode;
  bool there = false;
};
job::Task<Result<NamedObject>> named_object(Repair& repair) {
  const wire::Finding& finding = repair.finding;
  NamedObject named;
  if (finding.name.empty() || finding.name.size() > kMaxNameBytes) co_return named;
  SPATE_CO_TRY(std::ignore, repair.lock({kRenameLock, finding.directory}));
  std::string name = finding.name;
  SPATE_CO_TRY(const auto entry, co_await repair.operation.entry(finding.directory, std::move(name)));
  SPATE_CO_TRY(InodeState inode, co_await inode_state(repair.operation, finding.handle));
  named.there = entry && entry->handle == finding.handle && inode.readable();
  named.inode = std::move(inode.record);
  if (!named.there) co_return named;
  SPATE_CO_TRY(repair.reply.path, co_await path_of(repair.operation, finding.directory, finding.name));
  co_return named;
}

}  // namespace

job::Task<Result<void>> mend_link_count(Repair& repair) {
  SPATE_CO_TRY(auto inode, co_await counted_inode(repair));
  const std::uint64_t names = repair.finding.actual;
  if (!inode || inode->is_directory() || inode->attributes.link_count == names) co_return {};
  if (names == 0 || names > kMaxLinks) co_return Error::told(Errc::kInvalidArgument, "a link count out of range");
  if (!repair.confirm("its link count is " + std::to_string(names) + " now")) co_return {};
  inode->attributes.link_count = static_cast<std::uint32_t>(names);
  touch(*inode, repair.operation.now());
  repair.operation.put(*inode);
  co_return {};
}

job::Task<Result<void>> mend_orphan_inode(Repair& repair) {
  SPATE_CO_TRY(auto inode, co_await counted_inode(repair));
  if (!inode || inode->handle() == kRootHandle) co_return {};
  if (!inode->is_directory() && inode->attributes.link_count == 0) co_return {};
  if (!repair.confirm()) co_return {};
  SPATE_CO_TRY(std::ignore, repair.lock({kRenameLock}));
  SPATE_CO_TRY(repair.reply.path, co_await put_in_lost_found(repair.operation, *inode));
  repair.reply.note = "it is " + repair.reply.path + " now";
  co_return {};
}

job::Task<Result<void>> mend_unfinished_unlink(Repair& repair) {
  SPATE_CO_TRY(auto inode, co_await counted_inode(repair));
  if (!inode || inode->is_directory() || inode->attributes.link_count != 0) co_return {};
  SPATE_CO_TRY(const bool open, co_await is_open(repair.operation, inode->handle()));
  if (open) co_return {};  // its last close removes it
  if (!repair.confirm("its removal was finished")) co_return {};
  auto removed = co_await remove_object(repair.operation, *std::move(inode));
  co_return removed;
}

namespace {

/// Whether `directory` has a name of the object, checked at commit: a change of its entries changes its inode.
job::Task<Result<bool>> still_named(Repair& repair, Handle directory, Handle object) {
  SPATE_CO_TRY(std::ignore, repair.lock({directory}));
  SPATE_CO_TRY(std::ignore, co_await inode_state(repair.operation, directory));
  SPATE_CO_TRY(const auto name, co_await find_name(repair.operation, directory, object));
  co_return name.has_value();
}

/// An object without names has no parent.
job::Task<Result<void>> mend_parent_of_nameless(Repair& repair) {
  SPATE_CO_TRY(InodeState inode, co_await inode_state(repair.operation, repair.finding.handle));
  const bool wrong = inode.readable() && !inode.directory() && inode.record.attributes.link_count == 0;
  if (!wrong || !inode.record.parent) co_return {};
  if (!repair.confirm("it says no parent now")) co_return {};
  inode.record.parent = inode.record.second_parent = Handle();
  repair.operation.put(inode.record);
  co_return {};
}

/// Whether the second parent has a name that is not the one in the parent.
job::Task<Result<bool>> second_is_right(Repair& repair, const InodeRecord& inode) {
  if (!inode.second_parent) co_return true;
  SPATE_CO_TRY(std::ignore, co_await still_named(repair, inode.second_parent, inode.handle()));
  SPATE_CO_TRY(auto name, co_await find_name(repair.operation, inode.second_parent, inode.handle()));
  if (!name || inode.second_parent != inode.parent) co_return name.has_value();
  SPATE_CO_TRY(const auto other,
               co_await find_name(repair.operation, inode.second_parent, inode.handle(), *std::move(name)));
  co_return other.has_value();
}

/// Repairs the parent of an object that is not a directory. Nothing that clients see changes.
job::Task<Result<void>> mend_parent_of_file(Repair& repair, InodeRecord& inode) {
  const wire::Finding& finding = repair.finding;
  if (!inode.parent) co_return {};
  SPATE_CO_TRY(const bool named, co_await still_named(repair, inode.parent, inode.handle()));
  SPATE_CO_TRY(const bool second, co_await second_is_right(repair, inode));
  if ((named && second) || !repair.confirm("it says the right parent now")) co_return {};
  if (!named) inode.parent = finding.directory;
  inode.second_parent = Handle();
  repair.operation.put(inode);
  co_return {};
}

}  // namespace

/// Takes no lock: the entry and the inode are checked at commit, and many of a directory are filled at the same time.
job::Task<Result<void>> fill_parent(Repair& repair) {
  const wire::Finding& finding = repair.finding;
  if (finding.name.empty() || finding.name.size() > kMaxNameBytes) co_return {};
  std::string name = finding.name;
  SPATE_CO_TRY(const auto entry, co_await repair.operation.entry(finding.directory, std::move(name)));
  if (!entry || entry->handle != finding.handle) co_return {};
  SPATE_CO_TRY(InodeState inode, co_await inode_state(repair.operation, finding.handle));
  if (!inode.readable() || inode.record.parent || inode.record.attributes.link_count == 0) co_return {};
  if (!repair.confirm("it says its parent now")) co_return {};
  inode.record.parent = finding.directory;
  repair.operation.put(inode.record);
  co_return {};
}

job::Task<Result<void>> mend_wrong_parent(Repair& repair) {
  const wire::Finding& finding = repair.finding;
  if (finding.name.empty()) {
    auto mended = co_await mend_parent_of_nameless(repair);
    co_return mended;
  }
  SPATE_CO_TRY(NamedObject named, co_await named_object(repair));
  InodeRecord& inode = named.inode;
  if (!named.there) co_return {};
  if (!inode.is_directory()) {
    auto mended = co_await mend_parent_of_file(repair, inode);
    co_return mended;
  }
  if (inode.parent == finding.directory) co_return {};
  Operation& operation = repair.operation;
  bool second = inode.handle() == kRootHandle;
  if (!second) {
    SPATE_CO_TRY(second, co_await still_named(repair, inode.parent, inode.handle()));
  }
  if (second) {
    if (!repair.confirm("this second name of the directory was removed")) co_return {};
    std::string name = finding.name;
    auto taken = co_await take_entry(operation, finding.directory, std::move(name), true);
    co_return taken;
  }
  if (!repair.confirm("it says the right parent now")) co_return {};
  inode.parent = finding.directory;
  touch(inode, operation.now());
  operation.put(inode);
  co_return {};
}

job::Task<Result<void>> mend_second_name(Repair& repair) {
  SPATE_CO_TRY(const NamedObject named, co_await named_object(repair));
  const wire::Finding& finding = repair.finding;
  if (!named.there || !named.inode.is_directory()) co_return {};
  Operation& operation = repair.operation;
  // The root needs no name; any other directory must keep one.
  if (named.inode.handle() != kRootHandle) {
    SPATE_CO_TRY(std::ignore, co_await inode_state(operation, finding.directory));
    std::string itself = finding.directory == named.inode.parent ? finding.name : std::string();
    SPATE_CO_TRY(const auto other,
                 co_await find_name(operation, named.inode.parent, named.inode.handle(), std::move(itself)));
    if (!other) co_return {};
  }
  if (!repair.confirm("this second name of the directory was removed")) co_return {};
  std::string name = finding.name;
  auto taken = co_await take_entry(operation, finding.directory, std::move(name), true);
  co_return taken;
}

job::Task<Result<void>> mend_directory_loop(Repair& repair) {
  Operation& operation = repair.operation;
  SPATE_CO_TRY(std::ignore, repair.lock({kRenameLock}));
  SPATE_CO_TRY(InodeState inode, co_await inode_state(operation, repair.finding.handle));
  if (!inode.directory() || inode.record.handle() == kRootHandle) co_return {};
  std::unordered_map<Handle, bool> good;
  SPATE_CO_TRY(const bool loop, co_await heads_a_loop(operation, inode.record, good));
  if (!loop || !repair.confirm()) co_return {};
  const Handle parent = inode.record.parent;
  SPATE_CO_TRY(std::ignore, repair.lock({parent}));
  SPATE_CO_TRY(auto name, co_await find_name(operation, parent, inode.record.handle()));
  if (name) {
    SPATE_CO_TRY(std::ignore, co_await take_entry(operation, parent, *std::move(name), true));
  }
  // The directory above may be its own parent: then this is the inode just changed.
  SPATE_CO_TRY(inode, co_await inode_state(operation, repair.finding.handle));
  SPATE_CO_TRY(repair.reply.path, co_await put_in_lost_found(operation, inode.record));
  repair.reply.note = "it is " + repair.reply.path + " now, with everything below";
  co_return {};
}

job::Task<Result<void>> mend_xattr_counts(Repair& repair) {
  Operation& operation = repair.operation;
  const Handle handle = repair.finding.handle;
  // The inode is checked at commit: setting an attribute changes it.
  SPATE_CO_TRY(InodeState inode, co_await inode_state(operation, handle));
  if (!inode.readable()) co_return {};
  SPATE_CO_TRY(const XattrCounts counts, co_await count_xattrs(operation, handle));
  if (inode.record.xattr_count == counts.count && inode.record.xattr_bytes == counts.bytes) co_return {};
  if (!repair.confirm("there are " + std::to_string(counts.count) + ", of " + std::to_string(counts.bytes) +
                      " bytes")) {
    co_return {};
  }
  inode.record.xattr_count = counts.count;
  inode.record.xattr_bytes = counts.bytes;
  touch(inode.record, operation.now());
  operation.put(inode.record);
  co_return {};
}

job::Task<Result<void>> tell_handle_not_given(Repair& repair) {
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(repair.operation, repair.finding.handle));
  SPATE_CO_TRY(const CounterRecord given, co_await given_handles(repair.operation));
  if (inode.missing() || is_given(repair.operation, given, repair.finding.handle)) co_return {};
  repair.leave("the counter of handles stands at " + std::to_string(given.next) +
               ", new files would get numbers that are in use: stop the file system and see docs/fsck.md, \"By hand\"");
  co_return {};
}

job::Task<Result<void>> tell_unknown_target(Repair& repair) {
  SPATE_CO_TRY(const InodeState inode, co_await inode_state(repair.operation, repair.finding.handle));
  if (!inode.readable() || !inode.record.is_regular()) co_return {};
  for (const Slot& slot : inode.record.layout->slots) {
    for (const TargetId target : slot.targets) {
      if (repair.operation.core().has_target(target)) continue;
      repair.leave("part of the file lies on target " + std::to_string(target.value) +
                   ", which is on no server of this file system: put its server back, or restore the file from a copy");
      co_return {};
    }
  }
  co_return {};
}

}  // namespace spate::meta
