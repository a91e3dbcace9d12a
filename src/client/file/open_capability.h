// SPDX-License-Identifier: Apache-2.0
// OpenCapability: the capability with which an open file's requests go to the io servers. It is renewed when it expires
// or when its session ends.
#pragma once

#include "client/cluster.h"
#include "job/semaphore.h"
#include "model/capability.h"
#include "wire/meta_messages.h"

namespace spate::client {

/// Whether a new capability may help.
inline bool must_renew(Errc code) { return code == Errc::kCapabilityExpired || code == Errc::kSessionFenced; }

/// The most attempts of one operation, each with another capability or in another epoch of the session.
inline constexpr int kMostRenewals = 4;

/// The capability of one open file. An operation makes it current, takes a copy, and renews it when a server has
/// refused the copy. One executor; any number of operations at once.
class OpenCapability {
 public:
  struct Params {
    Handle handle;
    std::uint8_t open_flags = 0;  // flags of the open; the object keeps those that a later open must repeat
    Capability first;
  };
  /// `cluster` and `layout` outlive this object.
  OpenCapability(Cluster& cluster, const Layout& layout, Params params);
  OpenCapability(const OpenCapability&) = delete;
  OpenCapability& operator=(const OpenCapability&) = delete;

  const Capability& now() const { return capability_; }
  /// The capability for a change. kLostLock: a lock on the file was lost with an earlier epoch.
  Result<Capability> to_change() const;
  Rights rights() const { return rights_; }
  bool by_user() const { return by_user_; }
  /// The server has counted no open, so there is nothing to close (wire::kOpenUncounted).
  bool uncounted() const { return uncounted_; }
  /// The epoch of the session in which the file is open.
  rpc::SessionEpoch epoch() const { return {capability_.client, capability_.session_epoch}; }
  /// Whether epoch() is the current epoch of the session.
  bool in_current_epoch() const;

  /// Makes sure that the session is open, that the file is open in its current epoch, and that this client knows the
  /// servers that hold the file's targets.
  job::Task<Result<void>> make_current(Limits limits);
  /// Renews the capability after the servers refused `refused` with the error `why`. Only operations on this file wait;
  /// those on other files continue.
  job::Task<Result<void>> renew(Limits limits, Capability refused, Errc why);
  /// Whether the file was not open for some time. Another client may then have been its only writer.
  bool interrupted() const { return interrupted_; }

 private:
  job::Task<Result<void>> open_again(Limits limits);

  Cluster& cluster_;
  Session& session_;
  const Layout& layout_;
  const Handle handle_;
  const Rights rights_;
  const bool by_user_;  // root's session has opened it for another user
  bool uncounted_;
  Capability capability_;
  bool targets_known_ = false;  // their servers are in the cluster map, which never loses one
  bool interrupted_ = false;
  job::Semaphore renew_turn_;  // held by a renewal, since two at once would open the file twice
};

Rights rights_of(std::uint8_t open_flags);

/// Sends the open request. An older server is not told that a user opens the file (kOpenByUser), and counts every open.
/// Afterwards `request` is the request that the server has answered.
job::Task<Result<wire::OpenReply>> ask_to_open(Cluster& cluster, wire::OpenRequest& request, Limits limits);

}  // namespace spate::client
