// SPDX-License-Identifier: Apache-2.0
#include "posix/walk.h"

#include "posix/convert.h"

namespace spate::posix {

Result<wire::NamePath> PathWalk::beyond_link(const Error& error, const wire::NamePath& before) const {
  const std::string& prefix = link_prefix_;
  const std::string& target = error.context();
  const bool below = target.starts_with(prefix) && (target.size() == prefix.size() || target[prefix.size()] == '/');
  if (!below) return error;
  if (target.size() - prefix.size() > kLongestPath) return Errc::kNameTooLong;
  wire::NamePath path = before;
  path.start = kRootHandle;
  path.path = target.substr(prefix.size());
  return path;
}

job::Task<Result<PathAt>> PathWalk::parent_of(PathAt where) {
  const std::size_t end = where.path.find_last_not_of('/');
  if (end == std::string::npos) co_return where;  // the path is the base or the root itself
  const std::size_t slash = where.path.rfind('/', end);
  if (slash == std::string::npos) co_return where;  // the path has one component: there is nothing to walk
  PathAt parent = where;
  parent.path = where.path.substr(0, slash + 1);
  parent.follow = true;
  SPATE_CO_TRY(where.base, co_await object_at(std::move(parent)));
  where.path = where.path.substr(slash + 1);
  co_return where;
}

job::Task<Result<Handle>> PathWalk::object_at(PathAt where) {
  const auto operation = [this](wire::NamePath path) { return client_.lookup(std::move(path)); };
  SPATE_CO_TRY(auto object, co_await walk(std::move(where), operation));
  co_return object.attributes.handle;
}

}  // namespace spate::posix
