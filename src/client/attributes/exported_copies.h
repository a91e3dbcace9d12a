// SPDX-License-Identifier: Apache-2.0
// ExportedCopies: records of which answers the cache has given copies away, so that the copies can be taken back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "base/clock.h"
#include "client/attributes/copies.h"

namespace spate::client {

/// The copies of names in one directory.
struct NameCopies {
  std::uint64_t epoch = 0;  // the value of ExportedCopies::epoch_ when a name was copied last; 0: never
  MonoTime until;           // the time from which on nobody uses the last copy of that epoch
};

/// Copies of attributes are taken back for each object, copies of names only all at once: for those of one directory
/// alone, one would have to wait for the process that is changing it. Not thread-safe; the caller serialises calls.
class ExportedCopies {
 public:
  /// `copies` outlives this object. Null: nobody keeps copies.
  explicit ExportedCopies(Copies* copies) : copies_(copies) {}

  bool possible() const { return copies_ != nullptr; }
  bool brief() const { return copies_ != nullptr && copies_->brief(); }
  Copies::Names takes_names() const { return copies_ != nullptr ? copies_->takes_names() : Copies::Names::kOfNone; }

  /// False: the attributes must not be given away.
  bool export_attributes(Handle object, MonoTime until) {
    if (!copies_->begin_attributes(object, until)) return false;
    attributes_.insert(object);
    return true;
  }
  void drop_attributes(Handle object) {
    if (attributes_.erase(object) > 0) copies_->drop_attributes(object);
  }
  /// The object is gone, and nobody asks for the copies.
  void forget_attributes(Handle object) { attributes_.erase(object); }
  void drop_all_attributes() {
    for (const Handle object : attributes_) copies_->drop_attributes(object);
    attributes_.clear();
  }

  void export_name(NameCopies& directory, MonoTime until) {
    directory.until = has_names(directory) ? std::max(directory.until, until) : until;
    directory.epoch = last_exported_ = epoch_;
  }
  bool has_names(const NameCopies& directory) const { return directory.epoch == epoch_; }
  /// Whether the holder may have a copy of any name.
  bool any_names() const { return last_exported_ == epoch_; }
  void drop_names() {
    if (!any_names()) return;
    ++epoch_;
    copies_->drop_names();
  }
  void drop_names_of(const NameCopies& directory) {
    if (has_names(directory)) drop_names();
  }

 private:
  Copies* const copies_;
  std::unordered_set<Handle> attributes_;  // objects whose attributes the holder may have copies of
  std::uint64_t epoch_ = 1;                // copies of names that were given away in earlier epochs have been dropped
  std::uint64_t last_exported_ = 0;        // the value of epoch_ when a name was copied last
};

}  // namespace spate::client
