// SPDX-License-Identifier: Apache-2.0
// For tests: a meta server whose clients have keys of users, and an operator who revokes them.
#pragma once

#include "server/meta/testing/role_test.h"

namespace spate::meta {

class MetaUserKeys : public RoleTest {
 protected:
  static UserKey key_of(std::uint8_t n, bool read_only = false) {
    UserKey key;
    key.id.fill(static_cast<std::byte>(n));
    key.user = alice();
    key.read_only = read_only;
    return key;
  }
  TestClient holder(const UserKey& key) {
    TestClient client;
    client.who = key.user;
    client.user_key = key;
    EXPECT_OK(join(client));
    return client;
  }
  Result<wire::RevokeKeysReply> revoke(std::vector<KeyId> ids, std::vector<WallTime> ends = {}) {
    wire::RevokeKeysRequest request;
    request.keys = std::move(ids);
    request.ends = std::move(ends);
    if (!request.ends.empty()) request.keys.emplace_back();
    return asked<wire::RevokeKeysReply>(operators, request, no_id());
  }
  Result<wire::LockReply> lock(TestClient& client, Handle file, LockMode mode, LockKind kind = LockKind::kFlock) {
    wire::LockRequest request;
    request.lock.handle = file;
    request.lock.kind = kind;
    request.lock.mode = mode;
    request.lock.last = LockRange{}.last;
    request.sequence = request.oldest = ++client.next;
    return asked<wire::LockReply>(client, request, no_id());
  }
  static std::vector<KeyId> ids_of(const Result<wire::RevokeKeysReply>& reply) {
    std::vector<KeyId> ids;
    EXPECT_OK(reply);
    for (const wire::RevokedKey& key : reply ? reply->revoked : std::vector<wire::RevokedKey>()) ids.push_back(key.id);
    return ids;
  }
  WallTime in_hours(int n) { return {clock.wall().ns + Duration(std::chrono::hours(n)).count()}; }
  TestClient operators = connect(root_user());
};

}  // namespace spate::meta
