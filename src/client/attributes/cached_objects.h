// SPDX-License-Identifier: Apache-2.0
// CachedObjects: the objects and names that the attribute cache keeps under leases, ordered by their last use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "client/attributes/changes_under_way.h"
#include "client/attributes/exported_copies.h"
#include "client/attributes/sole_writer_state.h"
#include "wire/lease_messages.h"

namespace spate::client {

struct CachedName {
  Handle object;  // 0: the name does not exist
  FileType type = FileType::kRegular;
};

struct CachedObject {
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::optional<wire::ObjectReply> reply;
  std::unordered_map<std::string, CachedName, TextHash, std::equal_to<>> names;  // the names in a directory
  bool complete = false;                                                         // the directory has no other names
  bool delegated = false;                  // until it is recalled, this client answers changes of it itself
  Handle made_in;                          // the directory in which it was made, if that was local
  bool plain = false;                      // made locally, and no request has changed it since: a mode says all rights
  bool queued = false;                     // it was changed locally, and the answer to that has not come
  bool mtime_set = false;                  // locally, after data that are not sent yet
  bool listed = false;                     // a listing brought it, and nobody has asked for it since
  MonoTime until;                          // end of the lease by its own grant; a renewal prolongs all leases (until_)
  std::uint64_t order = 0;                 // number of the own change whose answer had the attributes; 0: a lookup's
  NameCopies name_copies;                  // copies of the names in a directory
  std::optional<SoleWriterState> writing;  // for a file that only this client may be writing
  std::list<Handle>::iterator place{};     // its place in the order of use

  /// For an object that has a reply. A write by any user but root clears the bits that lend rights (setuid, setgid).
  /// While a file may be written, only the meta server can tell whether the file still has them.
  bool may_lose_setid_bits() const {
    constexpr std::uint32_t kSetidBits = 06000;
    const Attributes& now = reply->attributes;
    return now.type == FileType::kRegular && !now.size_known && (now.mode & kSetidBits) != 0;
  }
  /// Whether a gathered write may be noted.
  bool takes_gathered() const {
    return reply && !reply->attributes.size_known && !may_lose_setid_bits() && written_data() != nullptr;
  }
  /// A write up to `end` was gathered.
  void note_gathered(std::uint64_t end, WallTime now) {
    wire::DataSummary& data = *writing->data;
    data.size = std::max(data.size, end);
    data.mtime = std::max(data.mtime, now);
    ++data.change_sum;  // until the servers' replies tell the real one
  }
  /// For a file that has a reply: the state of its datafiles. Null if this client does not know it.
  const wire::DataSummary* written_data() const {
    return writing && writing->under_way == 0 && writing->data ? &*writing->data : nullptr;
  }
};

/// Drops an object together with its names and all copies. Drops objects beyond the limit in the order of their last
/// use. Not thread-safe; the caller serialises calls.
class CachedObjects {
 public:
  /// `most`: limit of objects and names together. The other parameters outlive this object.
  CachedObjects(std::size_t most, const Clock& clock, ChangesUnderWay& changes, ExportedCopies& copies)
      : most_(most), clock_(clock), changes_(changes), copies_(copies) {}

  bool empty() const { return objects_.empty(); }
  /// Null: the object is not kept. The call does not count as a use.
  CachedObject* find(Handle handle);
  const CachedObject* find(Handle handle) const;
  /// Null: the object is not kept, its lease has expired, or an own change may touch it. Counts as a use.
  CachedObject* use(Handle handle, MonoTime now);
  /// Begins to keep the object, or keeps it longer, under a lease that ends at `until`.
  CachedObject& renewed(Handle handle, MonoTime until);
  void drop(Handle handle);
  /// This client has removed the object. Copies of it lead nowhere, as it does, and may stay.
  void removed(Handle handle);
  void drop_all();

  /// The end of the object's lease.
  MonoTime end_of(const CachedObject& object) const { return std::max(object.until, until_); }
  bool in_force(Handle handle, MonoTime now) const;
  /// Every lease that has not expired lasts at least until `until`.
  void renew_all(MonoTime until) { until_ = std::max(until_, until); }
  /// Drops objects whose leases have expired.
  void expire(MonoTime now);

  void put_name(CachedObject& directory, const wire::LeaseStep& step);
  /// The name does not exist any more.
  void forget_name(CachedObject& directory, const wire::TouchedName& name);
  /// Nobody knows any more which object the name leads to.
  void lose_name(const wire::TouchedName& name);
  void forget_names(Handle handle, CachedObject& directory);

  void make_room();
  /// Makes room for two more. False: only the directory and objects that came with its listing are left to drop.
  bool make_room_beside(Handle directory);
  /// Whether a listing may add names to the directory. The limit leaves room for the objects of these names, too.
  bool has_room_for(const CachedObject& directory) const;

 private:
  const std::size_t most_;
  const Clock& clock_;
  ChangesUnderWay& changes_;
  ExportedCopies& copies_;
  std::unordered_map<Handle, CachedObject> objects_;
  std::list<Handle> used_;  // the longest unused first
  std::size_t names_ = 0;
  MonoTime until_;  // every lease lasts at least so long, by the last renewal
};

}  // namespace spate::client
