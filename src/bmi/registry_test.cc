// SPDX-License-Identifier: Apache-2.0
#include "bmi/registry.h"

#include "base/expect.h"
#include "bmi/fake_module.h"

namespace spate::bmi {
namespace {

Registry two_modules() {
  Registry registry;
  for (const char* scheme : {"a", "b"}) {
    registry.add(scheme, [scheme](const ModuleEnvironment&) { return std::make_unique<FakeModule>(scheme); });
  }
  return registry;
}

TEST(Registry, MakesModulesByName) {
  const Registry registry = two_modules();
  SystemClock clock;
  EXPECT_EQ(registry.make("b", {clock}).value()->scheme(), "b");
  const auto all = registry.make_all({}, {clock});
  ASSERT_OK(all);
  EXPECT_EQ(all->size(), 2U);
  EXPECT_EQ(registry.make_all({"b"}, {clock})->size(), 1U);
}

TEST(Registry, AnUnknownNameIsAnErrorThatListsTheKnownNames) {
  const Registry registry = two_modules();
  SystemClock clock;
  const auto made = registry.make_all({"a", "verbs"}, {clock});
  EXPECT_ERRC(made, Errc::kNoSuchModule);
  EXPECT_NE(made.error().message().find("verbs"), std::string::npos);
  EXPECT_NE(made.error().message().find("a, b"), std::string::npos);
}

TEST(Registry, SchemesOfUrls) {
  EXPECT_EQ(url_scheme("ofi+verbs://host"), "ofi+verbs");
  EXPECT_EQ(module_scheme("ofi+verbs://host"), "ofi");
  EXPECT_EQ(module_scheme("tcp://host:1"), "tcp");
  EXPECT_EQ(module_scheme("tcp:host"), "");
}

}  // namespace
}  // namespace spate::bmi
