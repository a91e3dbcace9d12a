// SPDX-License-Identifier: Apache-2.0
#include "rpc/identity.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace spate::rpc {

bool can_prove(const Identity& identity, Proof asked) {
  if (identity.kind == wire::PeerKind::kServer) return true;
  const bool by_munge = static_cast<bool>(identity.fresh_key);
  switch (asked) {
    case Proof::kKey: return identity.key.has_value() || (by_munge && identity.policy.asked.munge_for_key);
    case Proof::kMunge: return by_munge;
    case Proof::kNothing:
    case Proof::kCertificate: return true;
  }
  return false;
}

Result<std::optional<ClientKey>> key_to_offer(const Identity& identity, Proof asked, ServerId server) {
  if (identity.kind == wire::PeerKind::kServer) return identity.key;
  const bool takes_munge = asked == Proof::kMunge || (asked == Proof::kKey && identity.policy.asked.munge_for_key);
  if (takes_munge && identity.fresh_key) {
    SPATE_TRY(ClientKey key, identity.fresh_key(server));
    return std::optional(std::move(key));
  }
  if (asked == Proof::kKey) return identity.key;
  return std::optional<ClientKey>();
}

std::vector<std::string> usable_urls(std::vector<std::string> urls, const Identity& identity) {
  const AskedProofs& asked = identity.policy.asked;
  if (identity.kind == wire::PeerKind::kServer) return urls;
  std::erase_if(urls, [&](const std::string& url) { return asked.avoided.contains(url); });
  std::vector<std::string> usable;
  std::ranges::copy_if(urls, std::back_inserter(usable),
                       [&](const std::string& url) { return can_prove(identity, asked.at(url)); });
  return usable.empty() ? std::move(urls) : std::move(usable);
}

}  // namespace spate::rpc
