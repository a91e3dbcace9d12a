// SPDX-License-Identifier: Apache-2.0
// For tests: a meta server and the holder of a key for one directory.
#pragma once

#include "base/expect.h"
#include "server/meta/testing/user_keys_test.h"

namespace spate::meta {

/// A tree that everybody may read and write, so that only the key keeps its holder back: /top/data is the key's
/// directory, /top/other lies beside it.
class ConfinedKeys : public MetaUserKeys {
 protected:
  ConfinedKeys() {
    for (const char* path : {"top", "top/data", "top/data/sub", "top/other", "top/other/deep"}) {
      EXPECT_OK(make_directory(operators, path)) << path;
      chmod(path, 0777);
    }
    for (const char* path : {"top/data/f", "top/data/sub/f", "top/other/g", "top/other/deep/g"}) {
      make_file(operators, path, 10);
      chmod(path, 0666);
    }
    data = handle_of("top/data");
    inside = handle_of("top/data/f");
    outside = handle_of("top/other/g");
    user = holder(confined(1));
  }
  UserKey confined(std::uint8_t n) {
    UserKey key = key_of(n);
    key.directory = data;
    return key;
  }
  void chmod(std::string path, std::uint32_t mode) {
    wire::SetattrRequest request;
    request.where = at(std::move(path));
    request.mode = mode;
    ASSERT_OK(asked<wire::ObjectReply>(operators, request));
  }
  Handle handle_of(std::string path) {
    const auto attributes = stat(operators, path);
    EXPECT_OK(attributes) << path;
    return attributes ? attributes->handle : Handle();
  }
  Result<wire::ObjectReply> make_directory(TestClient& client, std::string path) {
    wire::MkdirRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = 0755;
    return asked<wire::ObjectReply>(client, request);
  }
  Result<wire::Empty> remove_directory(TestClient& client, std::string path) {
    wire::RmdirRequest request;
    request.where = at(std::move(path));
    return asked<wire::Empty>(client, request);
  }
  Result<wire::Empty> rename(TestClient& client, std::string from, std::string to, std::uint8_t flags = 0) {
    return asked<wire::Empty>(client, rename_request(std::move(from), std::move(to), flags));
  }
  Result<wire::ObjectReply> link(TestClient& client, wire::NamePath existing, std::string path) {
    wire::LinkRequest request;
    request.existing = std::move(existing);
    request.where = at(std::move(path));
    return asked<wire::ObjectReply>(client, request);
  }
  Result<wire::ObjectReply> symlink(TestClient& client, std::string target, std::string path) {
    wire::SymlinkRequest request;
    request.where = at(std::move(path));
    request.target = std::move(target);
    return asked<wire::ObjectReply>(client, request);
  }
  Result<wire::ObjectReply> getattr(TestClient& client, Handle handle) {
    wire::GetattrRequest request;
    request.handle = handle;
    return asked<wire::ObjectReply>(client, request, no_id());
  }
  Result<wire::ReaddirReply> list(TestClient& client, Handle handle, bool attributes = true) {
    wire::ReaddirRequest request;
    request.handle = handle;
    request.attributes = attributes;
    return asked<wire::ReaddirReply>(client, request, no_id());
  }
  Result<wire::OpenReply> open_by_handle(TestClient& client, Handle handle) {
    wire::OpenRequest request;
    request.where.start = handle;
    request.open_flags = wire::kOpenRead;
    return asked<wire::OpenReply>(client, request);
  }
  Handle data;
  Handle inside;
  Handle outside;
  TestClient user;
};

}  // namespace spate::meta
