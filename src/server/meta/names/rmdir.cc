// SPDX-License-Identifier: Apache-2.0
#include "server/meta/names/objects.h"
#include "server/meta/names/operations.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

Errc error_of_last(const PathEnd& place) {
  switch (place.last) {
    case PathEnd::Last::kDot: return Errc::kInvalidArgument;
    case PathEnd::Last::kDotDot: return Errc::kNotEmpty;
    default: return Errc::kInvalidArgument;
  }
}

}  // namespace

Outcome<wire::RmdirReply> rmdir(Operation& operation, const wire::RmdirRequest& request) {
  Walker walker(operation, request.where);
  SPATE_CO_TRY(const PathEnd place, co_await walker.to_last());
  if (place.last != PathEnd::Last::kName) co_return error_of_last(place);
  SPATE_CO_TRY(NamedEntry named, co_await entry_for_change(operation, place));
  if (!named.entry) co_return Errc::kNotFound;
  const EntryRecord entry = *named.entry;
  InodeRecord& directory = named.directory;
  SPATE_CO_TRY(InodeRecord object, co_await inode_of(operation, entry, trove::ReadMode::kChecked));
  if (!may(operation.who(), directory, kWantWrite)) co_return Errc::kPermissionDenied;
  if (!sticky_allows(operation.who(), directory.attributes, object.attributes)) co_return Errc::kNotPermitted;
  if (!object.is_directory()) co_return Errc::kNotDirectory;
  // The inode is checked at commit, and every change of entries puts it. So this and a concurrent create cannot both
  // succeed.
  if (object.attributes.size != 0) co_return Errc::kNotEmpty;
  touch_entries(directory, operation.now(), -1, -1);
  operation.put(directory);
  operation.erase_entry(directory.handle(), place.name);
  SPATE_CO_TRY(std::ignore, co_await remove_object(operation, std::move(object)));
  co_return wire::RmdirReply{};
}

}  // namespace spate::meta
