// SPDX-License-Identifier: Apache-2.0
// LocalAnswers: changes that this client answers itself in directories delegated to it (docs/mount.md, "Delegated
// directories").
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "client/attributes/attribute_cache.h"
#include "client/attributes/local_changes.h"
#include "client/attributes/queued_bodies.h"

namespace spate::client {

/// Places of names in a listing that this client answers. The server's places are hashes by a key that it tells nobody,
/// of 63 bits, so hardly any of them is so small.
inline constexpr std::uint64_t kLocalCookies = std::uint64_t{1} << 40U;
std::uint64_t local_cookie(std::string_view name);

/// Answers changes from what the attribute cache keeps, adds them to the log, and lets the cache know their effect. As
/// the cache, it is thread-safe, and never waits for the executor. All parameters outlive it.
class LocalAnswers {
 public:
  LocalAnswers(AttributeCache& cache, LocalChanges& log, ChangesAfterData& after_data)
      : cache_(cache), log_(log), after_data_(after_data) {}

  using NewObject = ObjectToMake;
  static constexpr std::size_t kMostListed = 16384;  // some 5 MiB of entries
  // Nothing, or false: the server must be asked, once it has all changes of the log.
  std::optional<Result<Attributes>> make(const NewObject& made, std::uint64_t request_id);
  std::optional<Result<Attributes>> set(wire::SetattrRequest request, std::uint64_t request_id);
  /// An access control list that says what these permission bits (0 to 0777) say. Nothing: a list is removed that the
  /// object does not have.
  std::optional<Result<Attributes>> set_permissions(Handle object, std::optional<std::uint32_t> permissions,
                                                    std::uint64_t request_id);
  /// A write up to `end` of a new file. `keep` keeps its bytes, or refuses them; it is called with the cache's lock
  /// held, with the time of the write.
  bool write(Handle file, std::uint64_t end, const std::function<bool(WallTime)>& keep);
  /// Removes a name of a file or link that has no other one, or an empty directory. `where`: the directory, and the
  /// name in it. Fails as the server would.
  std::optional<Result<void>> remove(const wire::NamePath& where, wire::Op op, std::uint64_t request_id);
  /// All entries of a directory, by local_cookie(). Nothing: they are more than kMostListed, or it is not known what
  /// else is there.
  std::optional<wire::ReaddirReply> list(Handle directory);
  /// Whether the object was made locally, and nothing gave it extended attributes since.
  bool has_no_xattrs(Handle object);
  /// Whether open() may answer.
  bool may_open(Handle file);
  /// Opens a file for reading that the server has made, and nobody is writing. Returns its attributes.
  std::optional<Attributes> open(Handle file, std::uint64_t request_id);
  /// Ends an open, of which the request tells everything: what was written through it waits for the file's creation, or
  /// is at the io servers, and `request.data` tells of it. Returns the attributes afterwards.
  std::optional<Attributes> close(const wire::CloseRequest& request, std::uint64_t request_id);

  /// The file's data were sent: adds the changes that have waited for them. `data`: nothing if it is not known. False:
  /// the log has no room, and nothing has changed.
  bool add_later(Handle file, const std::optional<wire::DataSummary>& data);

  struct Answered {
    MonoTime asked;
    std::uint64_t last = 0;  // number of the last change that was sent
    std::set<Handle> made_directories = {};
  };
  /// The server has answered changes of the log.
  void end(const Answered& answer, const wire::Touched& touched, const wire::Granted& granted);
  /// A change of the object that was answered locally has failed.
  void forget(Handle object);

 private:
  // Call the following functions with the cache's lock held.
  CachedObject* delegated(Handle object);
  bool may_open(const CachedObject& object) const;
  std::optional<Result<Attributes>> set_now(CachedObject& object, wire::SetattrRequest request,
                                            std::uint64_t request_id);
  std::optional<Result<Attributes>> set_later(CachedObject& object, const wire::SetattrRequest& request);
  static void touch(Attributes& attributes, WallTime now);
  void keep(const Answered& answer, const wire::GrantedObject& granted, std::uint64_t order);

  AttributeCache& cache_;
  LocalChanges& log_;
  ChangesAfterData& after_data_;
};

}  // namespace spate::client
