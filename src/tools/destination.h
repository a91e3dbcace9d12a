// SPDX-License-Identifier: Apache-2.0
// Steps of a copy at its destination inside the file system.
#pragma once

#include <memory>

#include "client/client.h"

namespace spate::tools {

/// The bits of a mode that grant rights to others than the owner.
inline constexpr std::uint32_t kForOthers = 0077;

/// An object that the copy makes. `where` is its place; the texts are for messages.
struct Destination {
  wire::NamePath where;
  std::string from;  // as the user names it: "tree/a" or "spate:/tree/a"
  std::string to;    // a path inside the file system
};

/// The error of making `to`, with its cause: a directory that does not exist, or a directory in the place of a file.
Error cannot_make(Error error, const Destination& destination);

/// Mode and owner of the source.
struct Owned {
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  /// The mode of a copy that belongs to this user and group. It has setuid and setgid only if the owner is the same: a
  /// program must not run with the rights of a user who did not make it.
  std::uint32_t mode_for(std::uint32_t user, std::uint32_t group) const {
    constexpr std::uint32_t kSetIds = 06000;
    return user == uid && group == gid ? mode : mode & ~kSetIds;
  }
};

inline Owned owner_of(const Attributes& a) { return {a.mode, a.uid, a.gid}; }

/// Whether copies get the owner of their source: only root may give files to other users.
bool keeps_owners();

/// A name in a directory.
wire::NamePath name_in(Handle directory, std::string name);

/// The attributes with which a copy is made; for root also the owner. setuid and setgid are not set yet, because the
/// copy's owner is not known.
wire::NewAttributes attributes_for_copy(const Owned& source);
/// The request that gives the copy its final mode; for root also the owner.
wire::SetattrRequest owner_and_mode(const Attributes& copy, const Owned& source);

/// Makes the directory at a place, or takes an existing one. Replaces nothing else.
job::Task<Result<Attributes>> make_or_find_directory(client::Client& client, const Destination& destination,
                                                     wire::NewAttributes attributes);

/// Opens the file at a place for writing: creates it, or truncates an existing one. Follows a link only if
/// `destination.where` says so; otherwise the file replaces the link.
job::Task<Result<std::unique_ptr<client::File>>> create_file(client::Client& client, const Destination& destination,
                                                             client::NewObject object);

/// Gives a file that existed before the mode and owner of the source, and removes its access list. Call it after the
/// open and before the data, which may be meant for fewer readers. Another user's file keeps its own attributes if they
/// allow no more readers.
job::Task<Result<void>> adopt_attributes(client::Client& client, const client::File& file, const Owned& source);

/// Call it after the data, since a write clears set-uid and set-gid: sets them on the copy if adopt_attributes() did.
/// Costs one request more, only for such files.
job::Task<Result<void>> lend_rights_again(client::Client& client, const client::File& file, const Owned& source);

/// Calls `make()` to make an object at a place. If that fails with kExists, removes the object there, unless it is a
/// directory, and tries again. Pass only named arguments: they are used until the task has ended.
template <typename Make>
job::Task<Result<void>> make_anew(client::Client& client, const Destination& destination, const Make& make) {
  auto made = co_await make();
  if (!made && made.code() == Errc::kExists) {
    wire::NamePath there = destination.where;
    there.flags &= static_cast<std::uint8_t>(~wire::NamePath::kFollowLast);
    auto removed = co_await client.unlink(there);
    if (!removed) co_return cannot_make(std::move(removed).error(), destination);
    made = co_await make();
  }
  if (!made) co_return cannot_make(std::move(made).error(), destination);
  co_return Result<void>();
}

}  // namespace spate::tools
