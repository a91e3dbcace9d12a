// SPDX-License-Identifier: Apache-2.0
// AttributeCache: attributes and names that this client keeps under leases (docs/consistency.md, "Attribute leases").
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "client/attributes/cached_objects.h"
#include "client/attributes/change_plan.h"
#include "client/attributes/changes_under_way.h"
#include "client/attributes/copies.h"
#include "client/attributes/exported_copies.h"
#include "client/attributes/listing_credit.h"
#include "client/attributes/recent_events.h"
#include "client/options.h"
#include "wire/lease_messages.h"

namespace spate::client {

class LocalAnswers;

/// Keeps objects and names that a meta server has granted to this client, until the lease is recalled or expires, or
/// until this client changes them. The cache answers only for the session's credential, because the server checked that
/// credential's right to look up each name when it granted the name. Thread-safe, so a hit needs no executor. Sends no
/// messages. Options::on decides for the whole life of the cache whether it keeps anything.
///
/// One lock guards everything, because each answer depends on all of it. So lookups, listings and own changes are
/// chapters of one class (a source file each), and what can be told apart is in the classes of its members.
class AttributeCache {
 public:
  struct Options {
    bool on = false;
    /// The most objects and names together, at least 16. Beyond it, the cache drops the one that was used longest ago.
    std::size_t most = 50000;
    /// Holder of copies of the cache's answers, such as a kernel. Null: there is none. Not owned; outlives the cache.
    Copies* copies = nullptr;
    /// Decides worth_listing().
    Listings listings = Listings::kAuto;
  };
  AttributeCache(Options options, const Clock& clock);
  AttributeCache(const AttributeCache&) = delete;
  AttributeCache& operator=(const AttributeCache&) = delete;

  bool on() const { return options_.on; }

  /// The answer of a lookup; kNotFound for a name that is
  /// known not to exist. Nothing: the server must be asked.
  std::optional<Result<wire::ObjectReply>> find(const wire::NamePath& where);
  /// The attributes alone, if the cache knows all of them. It does not while a file is being written, unless only this
  /// client writes the file and knows its data (size_known is false even then).
  std::optional<Result<Attributes>> find_attributes(const wire::NamePath& where);

  /// The size of a file, and the time of the change that gave it that size. Nothing while somebody may be writing the
  /// file. If two calls return equal values, the file had this size all the time between the calls.
  struct KnownSize {
    std::uint64_t bytes = 0;
    WallTime changed;
    friend bool operator==(const KnownSize&, const KnownSize&) = default;
  };
  std::optional<KnownSize> known_size(Handle file);

  /// A change of the data begins or ends, through the open that has made the file. `data`: the state of all datafiles
  /// after the change, if it and that before it are known.
  void begin_writing(Handle file);
  void end_writing(Handle file, const std::optional<wire::DataSummary>& data);
  /// Whether only this client has the file open for writing, through the open that has made it.
  bool writes_alone(Handle file) const;
  /// A write up to `end` is gathered. From now on the attributes show it. False: nothing is changed, and it must be
  /// sent at once, since this client does not know that it alone writes the file, or what the write alters.
  bool gather(Handle file, std::uint64_t end, WallTime now);

  /// The attributes of an object as find_attributes() returns them, for a caller that keeps a copy. It may use the copy
  /// for `good_for` after the answer has come, and drops it earlier if Copies says so. Nothing: it must keep none.
  struct Copy {
    Attributes attributes;
    Duration good_for{0};
  };
  std::optional<Copy> copy_attributes(Handle object);
  /// As copy_attributes(), for a name and the object that it leads to (0: to nothing). Zero: the caller must not keep
  /// it. When own changes give a name to another object, the caller itself corrects its copies of names.
  Duration copy_name(Handle directory, std::string_view name, Handle object);
  /// Call it if the holder of the copies will not learn how an own change has altered its names. All its copies of
  /// names are dropped.
  void drop_copied_names();

  /// Begins a lookup that may bring leases. Call it before the request is sent: the cache then keeps nothing of the
  /// answer that is recalled or changed in the meantime.
  struct Lookup {
    MonoTime asked;
    std::uint64_t events_before = 0;
  };
  Lookup begin_lookup();
  /// Ends the lookup. `reply` is null if it failed.
  void end_lookup(const Lookup& lookup, const wire::LookupLeaseReply* reply);
  /// As end_lookup(), for a page of a directory.
  void end_listing(const Lookup& lookup, Handle directory, const wire::ListLeaseReply* reply);
  /// Whether a listing of the directory should ask for leases. It should while programs use entries that listings
  /// brought or might have brought, and while there is room for more of the directory's names.
  bool worth_listing(Handle directory) const;

  /// Begin and end of a change by this client. In between, the cache answers nothing that the change may touch, because
  /// other clients may already see the change.
  using ChangePtr = ChangesUnderWay::Ptr;
  ChangePtr begin_change(const ChangePlan& plan);
  /// `touched` null: nothing was changed. Otherwise the cache drops the touched objects, or everything if it is not
  /// known what was touched, and keeps the objects that were granted with the answer. `opened`: for a change with
  /// ChangePlan::Data::kOpened.
  void end_change(ChangePtr change, const wire::Touched* touched, const wire::Granted& granted, OpenedFile opened = {});

  /// The server has recalled the lease on an object.
  void recalled(Handle object);
  /// The server was asked for events at the time `asked`, and has answered. `complete`: the answer had all events.
  void heard(MonoTime asked, std::uint64_t table, bool complete);
  /// From now on the meta server's process `table` grants the leases. Drops the leases of any other process, also those
  /// that are still on their way.
  void server_is(std::uint64_t table);
  /// The session has ended, or nobody knows what was changed: drops everything.
  void clear();
  /// Whether anything is kept. If so, this client must renew the leases, and other clients that change the objects wait
  /// for this client.
  bool wants_events() const;
  /// Whether there is a lease on the object. This does not count as a use of it.
  bool has_lease(Handle object) const;
  /// How often to ask for events, so that leases do not expire. 0: the length of leases is not known yet.
  Duration longest_silence() const;

  struct Counters {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t recalls = 0;
    std::uint64_t copied = 0;  // copies of attributes and names that were given away
    std::uint64_t listed = 0;  // objects that listings have brought
    std::uint64_t local = 0;   // changes that were answered locally
  };
  Counters counters() const;

 private:
  friend class LocalAnswers;  // changes that need no answer of the server
  struct Found {
    const CachedObject* object = nullptr;
    bool nothing = false;  // it is known that the name does not exist
  };
  // Call the following functions with the lock held.
  std::optional<Found> walk(const wire::NamePath& where);
  bool all_blocked(MonoTime now) const;
  void note(Handle object, std::uint64_t order);
  void forget_events();
  void meet_table(std::uint64_t table, std::uint32_t lease_ms);
  void drop_all();
  Duration usable() const;
  Duration copy_time(const CachedObject& object, MonoTime now) const;

  void keep(const wire::LookupLeaseReply& reply, MonoTime until);
  void keep_page(const Lookup& lookup, Handle directory, const wire::ListLeaseReply& reply);
  void keep_listed(CachedObject& directory, const wire::LeaseStep& name, wire::ObjectReply object, MonoTime until);

  void keep_changed(const PendingChange& change, const wire::Touched& touched, const wire::Granted& granted,
                    OpenedFile opened);

  const Options options_;
  const Clock& clock_;
  mutable std::mutex mutex_;  // guards all members below
  ExportedCopies copies_;
  ChangesUnderWay changes_;
  CachedObjects objects_;
  RecentEvents events_;   // since the oldest lookup or change that is under way
  unsigned looking_ = 0;  // lookups under way
  std::uint64_t table_ = 0;
  Duration lease_{0};
  Counters counters_;
  ListingCredit listing_credit_;
};

/// Encloses a change. If the object is destroyed without an outcome, the cache treats everything as changed.
class OwnChange {
 public:
  OwnChange(AttributeCache& cache, const ChangePlan& plan) : cache_(cache), change_(cache.begin_change(plan)) {}
  OwnChange(const OwnChange&) = delete;
  OwnChange& operator=(const OwnChange&) = delete;
  ~OwnChange() {
    if (!ended_) end(wire::Touched(), wire::Granted());
  }
  void end(const wire::Touched& touched, const wire::Granted& granted, OpenedFile opened = {}) {
    ended_ = true;
    cache_.end_change(change_, &touched, granted, opened);
  }
  void end_without_effect() {
    ended_ = true;
    cache_.end_change(change_, nullptr, {});
  }

 private:
  AttributeCache& cache_;
  const AttributeCache::ChangePtr change_;
  bool ended_ = false;
};

}  // namespace spate::client
