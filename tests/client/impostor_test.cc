// SPDX-License-Identifier: Apache-2.0
// Servers that are not what they claim to be.
#include "base/expect.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

class Impostor : public ClientData {
 protected:
  /// Replaces the meta server by another process at the same address.
  void replace_meta(const rpc::ServerOptions& options) {
    executor_.run(meta_host_.server->stop());
    meta_host_.server = std::make_unique<rpc::Server>(options, *meta_host_.context, random_, meta_host_.metrics);
    meta_host_.server->add(*meta_);
    meta_host_.server->start();
  }
};

TEST_F(Impostor, AServerThatAsksForNoKeyIsRefusedByAClientThatHasOne) {
  rpc::ServerOptions options = meta_host_.server->options();
  options.entrances = rpc::Proof::kNothing;
  options.client_key = key(9);
  replace_meta(options);
  const auto connected = executor_.run(client_->connect());
  EXPECT_ERRC(connected, Errc::kUnauthenticated);
  if (!connected)
    EXPECT_NE(connected.error().message().find("wrong client key"), std::string::npos) << connected.error().message();
}

/// The process at the address accepts every client key, but cannot prove the right one itself.
TEST_F(Impostor, AServerWithAnotherKeyIsRefused) {
  rpc::ServerOptions options = meta_host_.server->options();
  options.client_key = key(9);
  replace_meta(options);
  const auto connected = executor_.run(client_->connect());
  EXPECT_ERRC(connected, Errc::kUnauthenticated);
}

TEST_F(Impostor, AnotherServerAtTheAddressIsNamed) {
  rpc::ServerOptions options = meta_host_.server->options();
  options.server = ServerId(77);
  replace_meta(options);
  const auto connected = executor_.run(client_->connect());
  EXPECT_ERRC(connected, Errc::kWrongFileSystem);
  if (!connected)
    EXPECT_NE(connected.error().message().find("server 77"), std::string::npos) << connected.error().message();
}

}  // namespace
}  // namespace spate::client::testing
