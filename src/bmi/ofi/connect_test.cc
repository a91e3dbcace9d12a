// SPDX-License-Identifier: Apache-2.0
// Connecting, and the clock.

#include <array>

#include "base/clock.h"
#include "base/expect.h"
#include "bmi/network.h"
#include "bmi/ofi/ofi_module.h"

#ifndef __has_feature  // g++
#define __has_feature(x) 0
#endif

namespace spate::bmi::ofi {
namespace {

/// A clock that jumps ahead after the first look at it, as if the thread had been busy for longer than any timeout.
class StallingClock final : public Clock {
 public:
  MonoTime now() const override {
    if (stalls && ++looks_ > 1) return real_.now() + std::chrono::seconds(60);
    return real_.now();
  }
  WallTime wall() const override { return real_.wall(); }
  bool stalls = false;

 private:
  SystemClock real_;
  mutable int looks_ = 0;
};

struct Party {
  explicit Party(const Clock& clock) {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(make_ofi_module(clock));
    network = make_network(std::move(modules));
    context = network->open_context();
  }
  std::unique_ptr<Network> network;
  ContextId context;
};

TEST(OfiConnect, TheStartOfLibfabricDoesNotCountAgainstTheConnectTimeout) {
  if (__has_feature(thread_sanitizer)) GTEST_SKIP() << "ThreadSanitizer knows nothing of the locks inside libfabric";
  const SystemClock clock;
  StallingClock stalling;
  Party server(clock);
  Party client(stalling);
  const Result<std::string> url = server.network->listen("ofi+tcp://127.0.0.1:0", server.context);
  ASSERT_OK(url);
  Message message;
  message.peer = *client.network->lookup(std::array{*url});
  stalling.stalls = true;
  const Result<Posted> posted = client.network->post_send_unexpected(message, client.context, nullptr);
  ASSERT_OK(posted);
  std::array<Completion, 1> done;
  std::array<UnexpectedMessage, 1> arrived;
  std::size_t completed = 0;
  std::size_t received = 0;
  while (completed == 0 || received == 0) {
    received += server.network->test_unexpected(server.context, arrived);
    completed += client.network->test_context(client.context, done);
    ASSERT_TRUE(completed == 0 || done[0].status == Errc::kOk) << describe(done[0].status);
  }
}

}  // namespace
}  // namespace spate::bmi::ofi
