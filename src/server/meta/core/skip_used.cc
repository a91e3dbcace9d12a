// SPDX-License-Identifier: Apache-2.0
// Numbers that io servers know are not given out again (used_numbers.h).
#include "log/log.h"
#include "server/meta/core/core.h"

namespace spate::meta {

void MetaCore::ask_used_numbers() {
  std::vector<ServerId> servers;
  for (const ServerEntry& server : membership_.map().servers) {
    if (server.roles.io) servers.push_back(server.id);
  }
  used_numbers_.start(servers, options_.used_numbers_patience,
                      [this](ServerId server, const wire::UsedNumbersReply& used) { skip_used(server, used); });
}

/// The numbers of this store have gone back if its place was taken by a backup. An io server may have datafiles under
/// the numbers from then on, and fences and groups.
void MetaCore::skip_used(ServerId server, const wire::UsedNumbersReply& used) {
  if (handles_.skip_to_after(used.files)) {
    SPATE_LOG("server/meta", error,
              "the meta store is an older copy of itself: an io server knows files that were made later server={}, new "
              "files get numbers after {}",
              server.value, used.files);
  }
  parts_.sessions->skip_clients(ClientId(used.clients));
  data_groups_.skip_to_after(used.groups);
}

}  // namespace spate::meta
