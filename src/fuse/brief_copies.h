// SPDX-License-Identifier: Apache-2.0
// BriefCopies: the attributes that the kernel keeps for one tick of its clock, and the names in delegated directories
// (attr_cache=mount, and with names attr_cache=names).
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "client/attributes/copies.h"

namespace spate::fuse {

/// While the kernel walks along a path it asks for each name, and then for the attributes of what it has found, to
/// check rights, although the answer to the name brought them. A tick (1 to 10 ms) is enough to spare the second
/// question. The promise of attr_cache=kernel holds: before a lease is returned the kernel has dropped its copy, or the
/// copy's time is over.
///
/// With attr_cache=names the kernel keeps names in directories delegated to this mount: there other clients change
/// nothing before a recall. A recall drops all names of the mount at once (Linux 6.16), and with them the pages of
/// files that nobody has open.
///
/// Life cycle: construct -> begin() -> end(), after the last request. Before begin() nothing is copied.
class BriefCopies final : public client::Copies {
 public:
  /// How long the kernel may keep the attributes of an answer, seconds: it rounds that up to a tick.
  static constexpr double kTimeout = 1e-6;

  /// `inherited`: an earlier process served the mount, so the kernel may have copies. `clock` outlives this object.
  /// `names`: whether the kernel may keep names.
  BriefCopies(const Clock& clock, bool inherited, bool names = false);
  ~BriefCopies() override;
  BriefCopies(const BriefCopies&) = delete;
  BriefCopies& operator=(const BriefCopies&) = delete;

  /// Call it once. `device`: /dev/fuse, of which this object makes a descriptor of its own.
  Result<void> begin(int device);
  /// Waits until the kernel has no copies. Call it before the leases are given up. It may be called more than once.
  void end();

  Names takes_names() const override { return names_ ? Names::kOfDelegated : Names::kOfNone; }
  bool brief() const override { return true; }
  /// `until` does not matter, since a copy ends by itself long before.
  bool begin_attributes(Handle object, MonoTime until) override;
  void drop_attributes(Handle object) override;
  void drop_names() override;
  bool when_dropped(UniqueFunction<void()> then) override;

 private:
  bool may_have_copy(Handle object) const { return recent_.contains(object) || earlier_.contains(object); }
  void forget_old(MonoTime now);
  void begin_epoch();
  bool any_to_drop(MonoTime now) const { return old_names_ || now < uncertain_until_; }
  void work();

  const Clock& clock_;
  bool names_;       // constant after begin()
  UniqueFd device_;  // set before the thread starts
  std::thread thread_;
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable wake_;
  // Objects of which the kernel may have a copy: those of the last second or so, and those of the second before.
  std::unordered_set<Handle> recent_, earlier_;
  MonoTime recent_since_;
  MonoTime uncertain_until_;  // until then the kernel may have copies that it was not told to drop
  bool old_names_ = false;    // the kernel must still be told to drop the names
  std::vector<UniqueFunction<void()>> waiting_;
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace spate::fuse
