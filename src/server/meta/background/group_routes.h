// SPDX-License-Identifier: Apache-2.0
// GroupRoutes: which target leads which group, and requests that follow it when it changes.
#pragma once

#include <map>

#include "job/deadline.h"
#include "model/data_group.h"

namespace spate::meta {

/// The newest record of each group. One executor; pinned. It outlives all attempts.
class GroupRoutes {
 public:
  GroupRoutes() = default;
  GroupRoutes(const GroupRoutes&) = delete;
  GroupRoutes& operator=(const GroupRoutes&) = delete;

  /// Null: no such group is known.
  const DataGroup* find(TargetId group) const {
    const auto found = groups_.find(group);
    return found == groups_.end() ? nullptr : &found->second;
  }
  /// Takes over the record, and stops the attempts at a target that does not lead the group any more.
  void update(const DataGroup& group) {
    groups_.insert_or_assign(group.id, group);
    auto [at, end] = attempts_.equal_range(group.id);
    while (at != end) {
      Attempt& attempt = *at->second;
      ++at;
      if (attempt.primary_ != group.primary) attempt.move();
    }
  }

  /// A request to the group's primary. It lives on the frame that sends the request. The group is known.
  class Attempt {
   public:
    Attempt(GroupRoutes& routes, TargetId group, job::Executor& executor, MonoTime deadline, job::StopToken stop)
        : routes_(routes), scope_(executor, deadline, stop), primary_(routes.find(group)->primary) {
      at_ = routes_.attempts_.emplace(group, this);
    }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;
    ~Attempt() { routes_.attempts_.erase(at_); }

    TargetId primary() const { return primary_; }
    /// Stopped at the deadline, by the caller's token, and when another target leads.
    job::StopToken token() { return scope_.token(); }
    bool moved() const { return moved_; }

   private:
    friend class GroupRoutes;
    void move() {
      moved_ = true;
      scope_.source().request_stop();
    }
    GroupRoutes& routes_;
    job::DeadlineScope scope_;
    TargetId primary_;
    bool moved_ = false;
    std::multimap<TargetId, Attempt*>::iterator at_;
  };

 private:
  std::map<TargetId, DataGroup> groups_;
  std::multimap<TargetId, Attempt*> attempts_;
};

}  // namespace spate::meta
