// SPDX-License-Identifier: Apache-2.0
#include "http/local_host.h"

#include "base/expect.h"

namespace spate::http {
namespace {

TEST(LocalHost, LoopbackIsNamedWithAnyPortOrNone) {
  for (const char* const host :
       {"localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:7480", "[::1]", "[::1]:65535", "localhost:7480"})
    EXPECT_TRUE(names_loopback(host)) << host;
}

TEST(LocalHost, OtherNamesAreNotLoopback) {
  for (const char* const host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.12",
                                 "localhost:", "localhost:x", "localhost:123456", "localhost:1@evil", "localhost 1",
                                 "xlocalhost", "::1", "127.0.0.1:80:80", "local"})
    EXPECT_FALSE(names_loopback(host)) << host;
}

}  // namespace
}  // namespace spate::http
