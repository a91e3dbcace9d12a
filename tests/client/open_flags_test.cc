// SPDX-License-Identifier: Apache-2.0
// A meta server that knows fewer flags of an open than this client: whatever a program opens, it is opened with the
// flags that the server knows, with the same rights.
#include "base/expect.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

/// Of the first version of the protocol.
constexpr unsigned kFirstFlags =
    wire::kOpenRead | wire::kOpenWrite | wire::kOpenTruncate | wire::kOpenExclusive | wire::kOpenExecute;

class OlderServerTest : public ClientData {
 protected:
  OlderServerTest() { EXPECT_OK(executor_.run(create("f")->close())); }
};

TEST_F(OlderServerTest, GetsTheRequestsThatItKnowsInTheEnd) {
  for (const unsigned known :
       {kFirstFlags, kFirstFlags | wire::kOpenUncounted, kFirstFlags | wire::kOpenByUser, 255U}) {
    meta_->known_open_flags = static_cast<std::uint8_t>(known);
    for (unsigned flags = 0; flags < 256; ++flags) {
      meta_->opens.clear();
      if (!wire::fit_open(static_cast<std::uint8_t>(flags))) continue;
      const auto file = executor_.run(client_->open(path_from_root("f"), static_cast<std::uint8_t>(flags)));
      ASSERT_OK(file) << flags;
      ASSERT_FALSE(meta_->opens.empty()) << flags;
      ASSERT_LE(meta_->opens.size(), 2U) << flags;
      const unsigned told = meta_->opens.back();
      EXPECT_EQ(told & ~known, 0U) << flags;
      EXPECT_EQ(told & kFirstFlags, flags & kFirstFlags) << flags;
      if ((flags & ~known) == 0) EXPECT_EQ(told, flags) << "it knows all of them";
      EXPECT_OK(executor_.run((*file)->close())) << flags;
    }
  }
}

/// The stand-in would accept them all. An older server's refusal would be answered by a request with fewer flags.
TEST_F(OlderServerTest, GetsNoRequestWithInvalidFlags) {
  unsigned refused = 0;
  for (unsigned flags = 0; flags < 256; ++flags) {
    const auto byte = static_cast<std::uint8_t>(flags);
    if (!wire::fit_open(byte)) {
      EXPECT_ERRC(executor_.run(client_->open(path_from_root("f"), byte)), Errc::kInvalidArgument) << flags;
      ++refused;
    }
    if (!wire::fit_create(byte)) {
      EXPECT_ERRC(executor_.run(client_->create(path_from_root("g"), byte, {})), Errc::kInvalidArgument) << flags;
      ++refused;
    }
  }
  EXPECT_EQ(meta_->opens.size(), 0U);
  EXPECT_ERRC(executor_.run(client_->open(path_from_root("g"), wire::kOpenRead)), Errc::kNotFound) << "it was made";
  EXPECT_EQ(refused, 190U + 160U);
}

/// The server has counted the open, which the client did not want, so the client closes it.
TEST_F(OlderServerTest, AnOpenThatItHasCountedIsClosed) {
  meta_->known_open_flags = kFirstFlags;
  const int before = meta_->closes;
  auto file = executor_.run(client_->open(path_from_root("f"), wire::kOpenRead | wire::kOpenUncounted));
  ASSERT_OK(file);
  EXPECT_OK(executor_.run((*file)->close()));
  EXPECT_EQ(meta_->closes, before + 1);
  meta_->known_open_flags = 255;
  file = executor_.run(client_->open(path_from_root("f"), wire::kOpenRead | wire::kOpenUncounted));
  ASSERT_OK(file);
  EXPECT_OK(executor_.run((*file)->close()));
  EXPECT_EQ(meta_->closes, before + 1);
}

}  // namespace
}  // namespace spate::client::testing
