// SPDX-License-Identifier: Apache-2.0
// MetaRecord: what the meta server has of an open file. A crash of its machine may take it.
#pragma once

#include "client/cluster.h"
#include "client/file/open_capability.h"

namespace spate::client {

/// The meta server's record of one open file: the file's name and inode, and the open. One executor.
class MetaRecord {
 public:
  /// Both outlive this object. The meta server has just answered the open.
  MetaRecord(Cluster& cluster, Handle handle, const OpenCapability& capability)
      : cluster_(cluster),
        handle_(handle),
        capability_(capability),
        incarnation_(cluster.session().meta().incarnation()) {}
  MetaRecord(const MetaRecord&) = delete;
  MetaRecord& operator=(const MetaRecord&) = delete;

  /// Makes the file's name and inode durable. Fails as check() does.
  job::Task<Result<void>> sync(Limits limits);
  /// kLostWrite: the server's machine has crashed, and the file's creation is lost. Asks nothing if the server has not
  /// restarted since it last knew the file.
  job::Task<Result<void>> check(Limits limits);
  /// The error of a call on this open that the meta server has answered with `error`. kLostWrite: it has lost the file.
  /// kSessionFenced: the open has ended with its session. All other errors stay as they are.
  Error told(Error error) const;
  /// The meta server that opened the file, or that knew it later.
  Incarnation incarnation() const { return incarnation_; }

 private:
  Cluster& cluster_;
  const Handle handle_;
  const OpenCapability& capability_;
  Incarnation incarnation_;
};

/// Whether the meta server has answered that it does not know the open, or not even the file.
inline bool is_unknown_open(Errc code) { return code == Errc::kBadDescriptor || code == Errc::kStaleHandle; }

}  // namespace spate::client
