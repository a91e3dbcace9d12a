// SPDX-License-Identifier: Apache-2.0
// link and unlink: names of objects that are not directories.
#include "server/meta/core/reply.h"
#include "server/meta/names/objects.h"
#include "server/meta/names/operations.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

/// Linux has this rule by default (fs.protected_hardlinks): a link prevents the removal of a file, for example of a
/// set-uid program in which a fault was found. If the caller has the client key, the kernel of its machine has checked
/// the rule.
Result<void> check_linkable(const Operation& operation, const InodeRecord& object) {
  const Credential& who = operation.who();
  if (!operation.call().peer->user_key || owns(who, object.attributes)) return {};
  const bool harmless = object.is_regular() && !lends_rights(object.attributes.mode);
  return harmless && may(who, object, kWantRead | kWantWrite) ? Result<void>() : Errc::kNotPermitted;
}

/// The holder of a confined key gives no name to a file that was moved away while it had it open: the name would keep
/// the file. A temporary file (O_TMPFILE) has no other name.
job::Task<Result<void>> check_confined(Operation& operation, const InodeRecord& object) {
  if (operation.confinement() == nullptr || object.attributes.link_count == 0) co_return {};
  SPATE_CO_TRY(const bool below, co_await operation.confinement()->is_below(operation.store(), object));
  co_return below ? Result<void>() : Errc::kPermissionDenied;
}

}  // namespace

Outcome<wire::LinkReply> link(Operation& operation, const wire::LinkRequest& request) {
  Walker walker(operation, request.where);
  SPATE_CO_TRY(InodeRecord object, co_await walk(operation, request.existing));
  SPATE_CO_TRY(const PathEnd place, co_await walker.to_last());
  SPATE_CO_TRY(std::ignore, check_addable(place));
  SPATE_CO_TRY(NamedEntry named, co_await entry_for_change(operation, place));
  if (named.entry) co_return Errc::kExists;
  if (place.slash) co_return Errc::kNotFound;
  if (object.is_directory()) co_return Errc::kNotPermitted;
  SPATE_CO_TRY(std::ignore, check_linkable(operation, object));
  SPATE_CO_TRY(std::ignore, co_await check_confined(operation, object));
  // A removed file cannot come back.
  if (object.attributes.link_count == 0 && !object.may_be_named()) co_return Errc::kNotFound;
  if (object.attributes.link_count >= kMaxLinks) co_return Errc::kTooManyLinks;
  if (object.is_regular()) object.may_be_named(false);
  gain_name(object, place.directory);
  touch(object, operation.now());
  SPATE_CO_TRY(std::ignore, add_object(operation, named, place.name, object));
  co_return object_reply(object);
}

Outcome<wire::UnlinkReply> unlink(Operation& operation, const wire::UnlinkRequest& request) {
  Walker walker(operation, request.where);
  SPATE_CO_TRY(const PathEnd place, co_await walker.to_last());
  if (place.last != PathEnd::Last::kName) co_return Errc::kIsDirectory;
  SPATE_CO_TRY(NamedEntry named, co_await entry_for_change(operation, place));
  if (!named.entry) co_return Errc::kNotFound;
  const EntryRecord entry = *named.entry;
  InodeRecord& directory = named.directory;
  SPATE_CO_TRY(InodeRecord object, co_await inode_of(operation, entry, trove::ReadMode::kChecked));
  if (place.slash) co_return object.is_directory() ? Errc::kIsDirectory : Errc::kNotDirectory;
  if (!may(operation.who(), directory, kWantWrite)) co_return Errc::kPermissionDenied;
  if (!sticky_allows(operation.who(), directory.attributes, object.attributes)) co_return Errc::kNotPermitted;
  if (object.is_directory()) co_return Errc::kIsDirectory;
  touch_entries(directory, operation.now(), -1, 0);
  operation.put(directory);
  operation.erase_entry(directory.handle(), place.name);
  SPATE_CO_TRY(std::ignore, co_await drop_link(operation, object, directory.handle()));
  co_return object_reply(object);
}

}  // namespace spate::meta
