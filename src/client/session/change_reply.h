// SPDX-License-Identifier: Apache-2.0
// ChangeReply: the meta server's reply to a change, apart from the lists of what the change has touched and granted.
#pragma once

#include <memory>

#include "rpc/channel_options.h"
#include "wire/lease_messages.h"

namespace spate::client {

/// The lists that precede the reply to a change, or to a batch of changes.
struct ChangeLists {
  wire::Touched touched;
  wire::Granted granted;
};

/// A value.
struct ChangeReply {
  rpc::RawReply raw;                         // `raw.body` begins behind the lists
  std::shared_ptr<const ChangeLists> lists;  // changes of one batch share them; null: the connection has no leases
};

/// Reads the lists of a reply. kProtocol: they cannot be read.
Result<ChangeReply> read_change_reply(Result<rpc::RawReply> reply);

}  // namespace spate::client
