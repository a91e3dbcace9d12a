// SPDX-License-Identifier: Apache-2.0
// mkdir and symlink: objects without data.
#include "server/meta/core/reply.h"
#include "server/meta/names/objects.h"
#include "server/meta/names/operations.h"

namespace spate::meta {

Outcome<wire::MkdirReply> mkdir(Operation& operation, const wire::MkdirRequest& request) {
  Walker walker(operation, request.where);
  SPATE_CO_TRY(const PathEnd place, co_await walker.to_last());
  SPATE_CO_TRY(std::ignore, check_addable(place));
  SPATE_CO_TRY(NamedEntry named, co_await entry_for_change(operation, place));
  if (named.entry) co_return Errc::kExists;
  const NewObject params{FileType::kDirectory, request.attributes, place.name};
  SPATE_CO_TRY(const InodeRecord object, co_await make_object(operation, named.directory, params));
  SPATE_CO_TRY(std::ignore, add_object(operation, named, place.name, object));
  co_return object_reply(object);
}

Outcome<wire::SymlinkReply> symlink(Operation& operation, const wire::SymlinkRequest& request) {
  if (request.target.empty()) co_return Errc::kNotFound;
  if (request.target.size() > kMaxSymlinkBytes) co_return Errc::kNameTooLong;
  if (request.target.find('\0') != std::string::npos)
    co_return Error::told(Errc::kInvalidArgument, "a target with a NUL byte");
  Walker walker(operation, request.where);
  SPATE_CO_TRY(const PathEnd place, co_await walker.to_last());
  SPATE_CO_TRY(std::ignore, check_addable(place));
  SPATE_CO_TRY(NamedEntry named, co_await entry_for_change(operation, place));
  if (named.entry) co_return Errc::kExists;
  if (place.slash) co_return Errc::kNotFound;
  const NewObject params{FileType::kSymlink, request.attributes, place.name};
  SPATE_CO_TRY(InodeRecord object, co_await make_object(operation, named.directory, params));
  object.attributes.mode = 0777;
  object.target = request.target;
  object.attributes.size = object.target.size();
  SPATE_CO_TRY(std::ignore, add_object(operation, named, place.name, object));
  co_return object_reply(object);
}

}  // namespace spate::meta
