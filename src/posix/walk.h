// SPDX-License-Identifier: Apache-2.0
// PathWalk: runs an operation on a path. If a link ends the meta server's walk, it runs the operation again on the path
// that the link leads to.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "client/client.h"
#include "posix/path_at.h"

namespace spate::posix {

/// Walks paths of one file system, which the program sees at `link_prefix` (FileSystemOptions). One executor. The
/// object outlives its tasks.
class PathWalk {
 public:
  /// `client` outlives this object.
  PathWalk(client::Client& client, std::string link_prefix) : client_(client), link_prefix_(std::move(link_prefix)) {}

  /// Absolute links begin at the file system's root.
  bool rooted() const { return link_prefix_.empty(); }
  /// Runs `operation(NamePath)`, which returns a Task, and runs it again beyond each link that ends the walk.
  /// `operation` outlives the returned task.
  template <typename Operation>
  auto walk(PathAt where, const Operation& operation);
  /// As walk(), for two paths. If a link ends the walk, both paths are first walked up to their last component.
  template <typename Operation>
  auto walk_both(PathAt first, PathAt second, const Operation& operation);

 private:
  job::Task<Result<Handle>> object_at(PathAt where);
  job::Task<Result<PathAt>> parent_of(PathAt where);
  /// The path at which a walk that ended with `error` continues; the error itself if it cannot continue.
  Result<wire::NamePath> beyond_link(const Error& error, const wire::NamePath& before) const;

  client::Client& client_;
  const std::string link_prefix_;
};

template <typename Operation>
auto PathWalk::walk(PathAt where, const Operation& operation) {
  using Done = std::invoke_result_t<const Operation&, wire::NamePath>;
  struct Walk {  // `operation` and everything that it refers to live in the caller's frame
    static Done run(PathWalk& self, PathAt from, const Operation& act) {
      const bool rooted = self.rooted();
      SPATE_CO_TRY(auto path, to_name_path(from, rooted));
      for (unsigned links = 0;; ++links) {
        wire::NamePath next = path;
        auto result = co_await act(std::move(next));
        if (result) co_return result;
        // A removed directory has no entries.
        if (result.code() == Errc::kStaleHandle && !from.path.empty()) co_return Errc::kNotFound;
        if (rooted || result.code() != Errc::kCrossDevice || !result.error().context().starts_with('/'))
          co_return result;
        if (links == kMaxSymlinkDepth) co_return Errc::kSymlinkLoop;
        SPATE_CO_TRY(path, self.beyond_link(result.error(), path));
      }
    }
  };
  return Walk::run(*this, std::move(where), operation);
}

template <typename Operation>
auto PathWalk::walk_both(PathAt first, PathAt second, const Operation& operation) {
  using Done = std::invoke_result_t<const Operation&, wire::NamePath, wire::NamePath>;
  struct Walk {
    static Done once(PathWalk& self, PathAt one, PathAt other, const Operation& act) {
      const bool rooted = self.rooted();
      SPATE_CO_TRY(auto a, to_name_path(one, rooted));
      SPATE_CO_TRY(auto b, to_name_path(other, rooted));
      auto result = co_await act(std::move(a), std::move(b));
      if (result.code() == Errc::kStaleHandle && !(one.path.empty() && other.path.empty())) co_return Errc::kNotFound;
      co_return result;
    }
    static Done run(PathWalk& self, PathAt one, PathAt other, const Operation& act) {
      auto result = co_await once(self, one, other, act);
      const bool link = result.code() == Errc::kCrossDevice && result.error().context().starts_with('/');
      if (!link || self.rooted()) co_return result;
      // The error does not tell which of the two paths contains the link, so both are walked up to their last
      // component.
      if (one.follow) {
        SPATE_CO_TRY(const auto object, co_await self.object_at(std::move(one)));
        one = PathAt::object(object);
      } else {
        SPATE_CO_TRY(one, co_await self.parent_of(std::move(one)));
      }
      SPATE_CO_TRY(other, co_await self.parent_of(std::move(other)));
      result = co_await once(self, std::move(one), std::move(other), act);
      co_return result;
    }
  };
  return Walk::run(*this, std::move(first), std::move(second), operation);
}

}  // namespace spate::posix
