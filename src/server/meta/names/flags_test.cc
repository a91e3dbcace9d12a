// SPDX-License-Identifier: Apache-2.0
// Flags and values that this server does not know are refused with a message, in every request that has some. Otherwise
// a newer client would take them for granted.
#include "base/expect.h"
#include "server/meta/testing/fs_test.h"
#include "wire/messages.h"
#include "wire/xattr_messages.h"

namespace spate::meta {
namespace {

class UnknownFlags : public ::testing::Test {
 protected:
  UnknownFlags() {
    EXPECT_OK(root_.create("file"));
    EXPECT_OK(root_.mkdir("folder"));
  }
  template <typename Reply, typename Request>
  void expect_refused(Request request, std::string_view word) {
    const auto reply = root_.ask<Reply>(std::move(request));
    EXPECT_ERRC(reply, Errc::kInvalidArgument) << Request::kName;
    if (!reply) EXPECT_NE(reply.error().message().find(word), std::string::npos) << reply.error().message();
  }

  TestFs fs_;
  User root_{fs_, root_user()};
};

TEST_F(UnknownFlags, InPathsAreRefusedByEveryRequest) {
  int requests = 0;
  for (const std::uint8_t unknown : {std::uint8_t{0x04}, std::uint8_t{0x80}}) {
    wire::for_each_operation([&]<typename Request, typename Reply>(wire::Op) {
      if constexpr (requires(Request r) { r.where.path; }) {
        Request request;
        request.where = at("file", unknown);
        if constexpr (requires { request.name; }) request.name = "user.colour";
        if constexpr (requires { request.target; }) request.target = "x";
        if constexpr (requires { request.existing; }) request.existing = at("file");
        if constexpr (std::is_same_v<Request, wire::OpenRequest>) request.open_flags = wire::kOpenRead;
        expect_refused<Reply>(request, "flags");
        ++requests;
      }
    });
  }
  EXPECT_GE(requests, 2 * 14);
  wire::RenameRequest rename;
  rename.from = at("file", 0x80);
  rename.to = at("other");
  expect_refused<wire::Empty>(rename, "flags");
  rename.from = at("file");
  rename.to = at("other", 0x80);
  expect_refused<wire::Empty>(rename, "flags");
  wire::LinkRequest link;
  link.existing = at("file", 0x80);
  link.where = at("other");
  expect_refused<wire::ObjectReply>(link, "flags");
}

TEST_F(UnknownFlags, InOperationsAreRefused) {
  wire::RenameRequest rename;
  rename.from = at("file");
  rename.to = at("other");
  rename.flags = 4;
  expect_refused<wire::Empty>(rename, "flags");
  wire::SetxattrRequest xattr;
  xattr.where = at("file");
  xattr.name = "user.colour";
  xattr.flags = 4;
  expect_refused<wire::Empty>(xattr, "flags");
  wire::OpenRequest open;
  open.where = at("file");
  open.open_flags = 0x20;
  expect_refused<wire::OpenReply>(open, "flags");
  wire::CreateRequest create;
  create.where = at("other");
  create.open_flags = 0x40;
  expect_refused<wire::OpenReply>(create, "flags");
}

}  // namespace
}  // namespace spate::meta
