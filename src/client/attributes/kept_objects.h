// SPDX-License-Identifier: Apache-2.0
// KeptObjects: the objects and names that the attribute cache keeps under leases, the latest used ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "client/attributes/changes_under_way.h"
#include "client/attributes/given_copies.h"
#include "client/attributes/own_writing.h"
#include "wire/lease_messages.h"

namespace spate::client {

struct KeptName {
  Handle object;  // 0: there is none
  FileType type = FileType::kRegular;
};

struct KeptObject {
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::optional<wire::ObjectReply> reply;
  std::unordered_map<std::string, KeptName, TextHash, std::equal_to<>> names;  // of a directory
  bool complete = false;                                                       // there are no others in it
  bool listed = false;                  // it came with a listing, and nobody has asked for it since
  MonoTime until;                       // by its own grant; renewals are for all
  std::uint64_t order = 0;              // of the own change that told the attributes; 0: a lookup did
  NameCopies name_copies;               // of a directory
  std::optional<OwnWriting> writing;    // of a file that only this client may be writing
  std::list<Handle>::iterator place{};  // in the order of use

  /// What the datafiles of a file, which has a reply, would say; null: that is not known. Rights that it lends go with
  /// a write of somebody else than root: whether they have gone is for the meta server to say.
  const wire::DataSummary* written_data() const {
    constexpr std::uint32_t kLent = 06000;
    if (!writing || writing->under_way > 0 || !writing->data) return nullptr;
    return (reply->attributes.mode & kLent) == 0 ? &*writing->data : nullptr;
  }
};

/// An object that is dropped takes its names and all copies with it. What is dropped beyond the limit was used longest
/// ago. Its user serialises calls.
class KeptObjects {
 public:
  /// `most`: objects and names together. The rest outlives it.
  KeptObjects(std::size_t most, const Clock& clock, ChangesUnderWay& changes, GivenCopies& copies)
      : most_(most), clock_(clock), changes_(changes), copies_(copies) {}

  bool empty() const { return objects_.empty(); }
  /// Null: not kept. No use of it.
  KeptObject* find(Handle handle);
  const KeptObject* find(Handle handle) const;
  /// Null: not kept, or its lease has run out, or an own change may touch it. A use of it.
  KeptObject* use(Handle handle, MonoTime now);
  /// What is kept of it from now on, under a lease that was asked for.
  KeptObject& renewed(Handle handle, MonoTime until);
  void drop(Handle handle);
  void drop_all();

  /// The end of its lease.
  MonoTime end_of(const KeptObject& object) const { return std::max(object.until, until_); }
  bool in_force(Handle handle, MonoTime now) const;
  /// All leases that have not run out last until then at least.
  void renew_all(MonoTime until) { until_ = std::max(until_, until); }
  /// Drops what has run out.
  void expire(MonoTime now);

  void put_name(KeptObject& directory, const wire::LeaseStep& step);
  /// There is no such name.
  void forget_name(KeptObject& directory, const wire::TouchedName& name);
  /// Nobody knows what the name leads to.
  void lose_name(const wire::TouchedName& name);
  void forget_names(Handle handle, KeptObject& directory);

  void make_room();
  /// For two more. False: there is nothing but the directory and what has come with it.
  bool make_room_beside(Handle directory);
  /// Whether it may have more names by being listed: what they lead to has to fit beside them.
  bool has_room_for(const KeptObject& directory) const;

 private:
  const std::size_t most_;
  const Clock& clock_;
  ChangesUnderWay& changes_;
  GivenCopies& copies_;
  std::unordered_map<Handle, KeptObject> objects_;
  std::list<Handle> used_;  // the longest unused first
  std::size_t names_ = 0;
  MonoTime until_;  // of everything, by the last renewal
};

}  // namespace spate::client
