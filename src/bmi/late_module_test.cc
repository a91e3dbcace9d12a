// SPDX-License-Identifier: Apache-2.0
#include "bmi/late_module.h"

#include <gmock/gmock.h>
#include <sys/eventfd.h>

#include <array>
#include <optional>

#include "base/expect.h"
#include "bmi/fake_module.h"

namespace spate::bmi {
namespace {

struct LateModuleTest : testing::Test {
  /// A network with two modules: "late", which is loaded on demand, and "here".
  std::unique_ptr<Network> make() {
    const ModuleLoader loader = [this](std::string_view scheme, const ModuleEnvironment&) {
      ++loads;
      if (missing) return Result<std::unique_ptr<Module>>(Error(Errc::kNoSuchModule, "install it"));
      auto module = std::make_unique<FakeModule>(std::string(scheme));
      late = module.get();
      descriptor.reset(::eventfd(0, EFD_CLOEXEC));
      late->descriptor = descriptor.get();
      late->sends_at_once = true;
      return Result<std::unique_ptr<Module>>(std::move(module));
    };
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(make_late_module("late", {clock}, loader));
    modules.push_back(std::make_unique<FakeModule>("here"));
    return make_network(std::move(modules));
  }
  SystemClock clock;
  UniqueFd descriptor;
  FakeModule* late = nullptr;
  int loads = 0;
  bool missing = false;
};

TEST_F(LateModuleTest, NothingIsLoadedUntilAUrlAsksForIt) {
  const auto network = make();
  const std::array<std::string, 1> other{"here://1"};
  ASSERT_OK(network->lookup(other));
  network->open_context();
  EXPECT_EQ(loads, 0);
  const std::array<std::string, 1> urls{"late+x://1"};
  EXPECT_OK(network->lookup(urls));
  EXPECT_OK(network->listen("late://2", network->open_context()));
  EXPECT_EQ(loads, 1);
}

TEST_F(LateModuleTest, AMissingModuleIsNamedAndSkipped) {
  missing = true;
  const auto network = make();
  const std::array<std::string, 1> alone{"late://1"};
  const Result<Address> failed = network->lookup(alone);
  EXPECT_ERRC(failed, Errc::kNoSuchModule);
  EXPECT_NE(failed.error().message().find("install it"), std::string::npos);
  const std::array<std::string, 2> both{"late://1", "here://1"};
  EXPECT_OK(network->lookup(both));
  EXPECT_ERRC(network->listen("late://1", network->open_context()), Errc::kNoSuchModule);
}

TEST_F(LateModuleTest, MemoryThatWasAllocatedBeforeIsRegisteredWithIt) {
  const auto network = make();
  const MutableByteView early = network->mem_alloc(4096);
  const MutableByteView freed = network->mem_alloc(4096);
  network->mem_free(freed);
  const std::array<std::string, 1> urls{"late://1"};
  ASSERT_OK(network->lookup(urls));
  EXPECT_EQ(late->registered, std::vector<std::byte*>{early.data()});
  network->mem_free(early);
  EXPECT_THAT(late->registered, testing::IsEmpty());
}

TEST_F(LateModuleTest, PostsGoToTheLoadedModule) {
  const auto network = make();
  const ContextId context = network->open_context();
  const std::array<std::string, 1> urls{"late://1"};
  const Result<Address> peer = network->lookup(urls);
  ASSERT_OK(peer);
  const Result<Posted> posted = network->post_recv({.peer = *peer, .tag = Tag(1), .segments = {}}, context, nullptr);
  ASSERT_OK(posted);
  ASSERT_EQ(late->posts.size(), 1U);
  late->complete(late->last());
  EXPECT_NE(network->test(context, posted->op), std::nullopt);
  const Result<Posted> sent = network->post_send({.peer = *peer, .tag = Tag(1), .segments = {}}, context, nullptr);
  ASSERT_OK(sent);
  EXPECT_TRUE(sent->done) << "the module sent it in its post";
  EXPECT_EQ(late->asked_to_send_at_once, 1);
}

TEST(LoadModule, TheErrorNamesTheMissingModule) {
  SystemClock clock;
  const auto loaded = load_module("pigeon", {clock});
  EXPECT_ERRC(loaded, Errc::kNoSuchModule);
  EXPECT_NE(loaded.error().message().find("libspate-bmi-pigeon.so"), std::string::npos);
}

}  // namespace
}  // namespace spate::bmi
