// SPDX-License-Identifier: Apache-2.0
// Steps of a copy at its destination inside the file system.
#pragma once

#include <memory>

#include "client/client.h"

namespace spate::tools {

/// The bits of a mode that grant anything to others than the owner.
inline constexpr std::uint32_t kForOthers = 0077;

/// An object that the copy makes. `where` is its place; the texts are for messages.
struct Making {
  wire::NamePath where;
  std::string from;  // as the user names it: "tree/a" or "spate:/tree/a"
  std::string to;    // a path inside the file system
};

/// The error of making `to`, with its cause: a directory that does not exist, or a directory in the place of a file.
Error cannot_make(Error error, const Making& making);

/// Mode and owner of the source.
struct Owned {
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  /// The mode of a copy that belongs to this user and group. A program must not run with the rights of somebody who did
  /// not make it.
  std::uint32_t mode_for(std::uint32_t user, std::uint32_t group) const {
    constexpr std::uint32_t kSetIds = 06000;
    return user == uid && group == gid ? mode : mode & ~kSetIds;
  }
};

inline Owned owner_of(const Attributes& a) { return {a.mode, a.uid, a.gid}; }

/// The attributes with which a copy is made: for root also the owner. They have no setuid and setgid, because the
/// copy's owner is not known yet.
wire::NewAttributes attributes_for_copy(const Owned& source);

/// Makes the directory at a place, or takes the one that is there. Replaces nothing else.
job::Task<Result<Attributes>> make_or_find_directory(client::Client& client, const Making& making,
                                                     wire::NewAttributes attributes);

/// Opens the file at a place for writing: creates it, or empties the one that is there. Follows a link only if
/// `making.where` says so; else the file replaces the link.
job::Task<Result<std::unique_ptr<client::File>>> create_file(client::Client& client, const Making& making,
                                                             client::NewObject object);

/// The file just opened for writing gets mode and owner, if it has others because it was there before: ahead of the
/// data, which may be meant for fewer readers; an access list goes. A file of somebody else keeps its own where no more
/// can read it than should.
job::Task<Result<void>> adopt_attributes(client::Client& client, const client::File& file, const Owned& source);

/// After the data, since a write takes set-uid and set-gid from a file: the copy gets them if adopt_attributes() gave
/// them. One request more, for such files only.
job::Task<Result<void>> lend_rights_again(client::Client& client, const client::File& file, const Owned& source);

/// `make()` makes something at a place, which fails with kExists when the name is there: what has it then goes first,
/// unless it is a directory. Named arguments only: they are used until the task has ended.
template <typename Make>
job::Task<Result<void>> make_anew(client::Client& client, const Making& making, const Make& make) {
  auto made = co_await make();
  if (!made && made.code() == Errc::kExists) {
    wire::NamePath there = making.where;
    there.flags &= static_cast<std::uint8_t>(~wire::NamePath::kFollowLast);
    auto removed = co_await client.unlink(there);
    if (!removed) co_return cannot_make(std::move(removed).error(), making);
    made = co_await make();
  }
  if (!made) co_return cannot_make(std::move(made).error(), making);
  co_return Result<void>();
}

}  // namespace spate::tools
