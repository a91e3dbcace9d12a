// SPDX-License-Identifier: Apache-2.0
// SpaceUse: the space of a file system, as its servers report it.
#pragma once

#include <vector>

#include "client/session/session.h"
#include "wire/io_messages.h"

namespace spate::client {

struct SpaceUse {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_files = 0;  // limited by what the devices of the io servers can hold
  std::uint64_t free_files = 0;
  std::uint64_t objects = 0;  // in the name space
  struct Server {
    ServerId server;
    std::vector<wire::TargetSpace> targets;
    Result<void> answered = {};  // an error says why there are no targets
  };
  std::vector<Server> servers;
};

/// Asks the meta server and all io servers at the same time. A device that several targets share is counted once. An io
/// server that does not answer within `of_io_servers` is left out.
job::Task<Result<SpaceUse>> space_use(Session& session, Limits limits, Limits of_io_servers);

}  // namespace spate::client
