// SPDX-License-Identifier: Apache-2.0
// Client: the name space of a file system, as asynchronous calls. client/blocking.h turns them into blocking calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/cluster.h"
#include "client/file/file.h"
#include "client/known_xattrs.h"
#include "client/queued_files.h"
#include "client/space.h"
#include "wire/xattr_messages.h"

namespace spate::client {

using wire::NamePath;

/// A path below the root. Links are followed inside the file system; a link at the end only if `follow_last`.
NamePath path_from_root(std::string path, bool follow_last = true);

/// The properties of a new object.
struct NewObject {
  wire::NewAttributes attributes;
  wire::LayoutHints layout;
};

/// The name space of one file system, for the user of Options::credential.
///
/// A call sends one request to the meta server unless its comment says otherwise, and ends by the deadline of the
/// options. It fails with the server's error, or with kTimeout or kUnreachable and the server's name. After these two a
/// change may still take effect.
///
/// Life cycle: construct -> calls -> stop() awaited -> destroyed. The first call opens the session. Files are closed
/// before stop(), and destroyed before the client; an open that was not closed ends with the session. One executor; any
/// number of calls at once. Not movable.
class Client {
 public:
  /// `network` and `random` outlive the client, and so do objects to which `options` refers. Sends nothing.
  Client(Options options, job::NetworkContext& network, Random& random);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Opens the session. Other calls open it themselves if it is not open.
  job::Task<Result<void>> connect();
  /// Ends waits for locks with kCancelled, closes in flight, and the session at the meta server. The end of the session
  /// gets a second at most, and its failure is only logged. All other calls have ended before, and none may follow.
  job::Task<void> stop();

  /// The attributes. If the file is being written, size and times come from its datafiles (one more request to each of
  /// their servers).
  job::Task<Result<wire::ObjectReply>> stat(NamePath where);
  job::Task<Result<wire::ObjectReply>> lookup(NamePath where);
  /// Whether this client keeps anything under leases. Thread-safe.
  bool keeps_attributes() const { return cluster_.attributes().on(); }
  /// The answer of stat() if it is kept under a lease; else nothing. Thread-safe. Never waits for the executor.
  std::optional<Result<Attributes>> kept_attributes(const NamePath& where) {
    return cluster_.attributes().find_attributes(where);
  }
  /// As stat(), but kPermissionDenied unless this client has all rights in `want`: 4 read, 2 write, 1 execute.
  job::Task<Result<wire::ObjectReply>> access(NamePath where, std::uint8_t want);
  /// If the request sets mtime on a file that is being written, this first asks the datafiles for their state
  /// (SetattrRequest.data).
  job::Task<Result<Attributes>> setattr(wire::SetattrRequest request);

  /// `open_flags`: wire::OpenFlags that fit_open(); otherwise kInvalidArgument, without a request. The caller owns the
  /// File.
  job::Task<Result<std::unique_ptr<File>>> open(NamePath where, std::uint8_t open_flags);
  /// Takes over a file that an earlier process of this session opened and did not close
  /// (client/session/handover_state.h). `known_later`: that LocalAnswers::open() has opened for reading.
  job::Task<Result<std::unique_ptr<File>>> open_again(HandoverState::Open& record, bool known_later = false);
  /// Closes such a file without opening it again, or continues a close that the earlier process began. `on_ended`: as
  /// in File::close(); `record` must live until then.
  job::Task<Result<void>> close_inherited(const HandoverState::Open& record, UniqueFunction<void()> on_ended = {});
  /// Creates and opens a file. Without kOpenExclusive it opens a file that exists. The flags must fit_create().
  job::Task<Result<std::unique_ptr<File>>> create(NamePath where, std::uint8_t open_flags, NewObject object);
  job::Task<Result<Attributes>> make_node(wire::CreateRequest request);
  job::Task<Result<Attributes>> mkdir(NamePath where, wire::NewAttributes attributes);
  job::Task<Result<Attributes>> symlink(NamePath where, std::string target, wire::NewAttributes attributes = {});
  job::Task<Result<Attributes>> link(NamePath existing, NamePath where);
  job::Task<Result<void>> unlink(NamePath where);
  job::Task<Result<void>> rmdir(NamePath where);
  /// `flags`: wire::kRenameNoReplace or wire::kRenameExchange; 0: neither.
  job::Task<Result<void>> rename(NamePath from, NamePath to, std::uint8_t flags = 0);
  job::Task<Result<void>> truncate(NamePath where, std::uint64_t size);
  /// One page of a directory: at least one entry, unless the directory ends there. Attributes are as those of stat().
  /// Asks for leases on the entries where AttributeCache::worth_listing() says that they pay.
  job::Task<Result<wire::ReaddirReply>> readdir(wire::ReaddirRequest request);

  job::Task<Result<Bytes>> getxattr(NamePath where, std::string name);
  job::Task<Result<void>> setxattr(wire::SetxattrRequest request);
  job::Task<Result<std::vector<std::string>>> listxattr(NamePath where);
  job::Task<Result<void>> removexattr(NamePath where, std::string name);

  /// The sums over all io servers. A device that several targets share counts once.
  job::Task<Result<SpaceUse>> statfs();
  /// As statfs(), but the sums leave out an io server that does not answer within `timeout`
  /// (SpaceUse::Server::answered).
  job::Task<Result<SpaceUse>> space_of_those_there(Duration timeout);
  /// All name-space changes that were acknowledged before the call survive a crash of the meta server's machine.
  job::Task<Result<void>> sync();

  Cluster& cluster() { return cluster_; }
  QueuedFiles& queued_files() { return queued_files_; }
  Session& session() { return cluster_.session(); }

 private:
  job::Task<Result<wire::ObjectReply>> lookup_and_keep(NamePath where);
  job::Task<Result<wire::ReaddirReply>> list_and_keep(const wire::ReaddirRequest& request);
  job::Task<Result<bool>> lists_with_leases(Handle directory);
  job::Task<Result<wire::ReaddirReply>> page_of(const wire::ReaddirRequest& request);
  /// Asks the meta server, even if the attribute cache has an answer.
  job::Task<Result<wire::ObjectReply>> look_again(NamePath where, Limits limits);
  template <typename Request>
  job::Task<Result<void>> change(const Request& request, Limits limits);
  template <typename Request>
  job::Task<Result<Attributes>> change_object(const Request& request, Limits limits);
  job::Task<void> send_gathered(const NamePath& where);

  std::optional<KnownXattrs::State> kept_state(const NamePath& where);

  Cluster cluster_;
  KnownXattrs xattrs_;
  QueuedFiles queued_files_;
};

}  // namespace spate::client
