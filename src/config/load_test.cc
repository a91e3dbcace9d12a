// SPDX-License-Identifier: Apache-2.0
#include "config/load.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "config/describe.h"
#include "config/load_fixture.h"
#include "config/url.h"

namespace spate::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Load, AGoodFileBecomesAValueWithDefaultsAndOrigins) {
  const auto loaded = load(input(kGood));
  ASSERT_OK(loaded);
  const FileSystemConfig& c = loaded->config;
  EXPECT_EQ(c.fs.id, FsId(0x5eed0001));
  EXPECT_EQ(c.fs.auth, Auth::kNone);
  EXPECT_EQ(c.defaults, DefaultsConfig());
  EXPECT_EQ(c.meta.sync, std::chrono::milliseconds(100));
  EXPECT_EQ(c.network.server_busy_poll, Duration(0)) << "compute nodes serve, too";
  EXPECT_EQ(c.meta.busy_poll, std::chrono::microseconds(100));
  ASSERT_EQ(c.servers.size(), 2U);
  EXPECT_EQ(c.servers[0].roles, (Roles{true, false}));
  EXPECT_EQ(c.servers[0].keyval, "/etc/spate/meta1");
  EXPECT_THAT(c.servers[1].storage, ElementsAre("/etc/spate/data2", "/abs"));
  EXPECT_EQ(c.find_server(ServerId(2)), &c.servers[1]);
  EXPECT_EQ(loaded->origins.at("fs.id"), "spate.toml:2");
  EXPECT_EQ(loaded->origins.at("servers[1].storage"), "spate.toml:13");
  EXPECT_THAT(loaded->origins, Not(testing::Contains(testing::Key("meta.sync"))));
}

TEST(Load, TheMapNumbersTargetsByServerAndPlace) {
  const auto loaded = load(input(kGood));
  ASSERT_OK(loaded);
  const ClusterMap map = cluster_map(loaded->config);
  EXPECT_EQ(map.fs, FsId(0x5eed0001));
  EXPECT_THAT(map.find_server(ServerId(2))->targets, ElementsAre(TargetId(512), TargetId(513)));
}

TEST(Load, AllUnitsAndTypes) {
  const auto loaded = load(input(std::string(kGood) + R"(
[defaults]
strip_bytes = "64K"
strip_count = 3
[meta]
sync = "commit"
session_lease = "2 min"
[network]
eager_limit = 1024
[log]
format = "json"
level = "info,bmi=debug"
)"));
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->config.defaults.strip_bytes, 65536U);
  EXPECT_EQ(loaded->config.defaults.strip_count, 3U);
  EXPECT_EQ(loaded->config.meta.sync, Duration(0));
  EXPECT_EQ(loaded->config.meta.session_lease, std::chrono::minutes(2));
  EXPECT_EQ(loaded->config.network.eager_limit, 1024U);
  EXPECT_EQ(loaded->config.log.format, LogFormat::kJson);
}

TEST(Load, AnUnknownKeyOrSectionIsNamedWithItsPlaceAndTheNearest) {
  EXPECT_EQ(mistakes_with("clinet_key_file = \"x\"\n"),
            "spate.toml:4: unknown key \"clinet_key_file\" in [fs] (did you mean \"client_key_file\"?)");
  EXPECT_THAT(mistakes_with("sync = \"1 s\"\n"), HasSubstr("(did you mean \"meta.sync\"?)"));
  EXPECT_THAT(mistakes_with("[mata]\n"), HasSubstr("spate.toml:4: unknown section [mata] (did you mean \"meta\"?)"));
  EXPECT_THAT(mistakes_with("qwertyuiop = 1\n"), AllOf(HasSubstr("unknown key"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(
      mistakes("[fs]", "strip_bytes = 4096\n[fs]"),
      HasSubstr(
          "spate.toml:1: \"strip_bytes\" stands outside of any section (did you mean \"defaults.strip_bytes\"?)"));
}

TEST(Load, WrongTypesAndRangesSayWhatIsAllowed) {
  EXPECT_EQ(
      mistakes_with("[meta]\nsync = \"5 parsecs\"\n"),
      "spate.toml:5: meta.sync: \"5 parsecs\" is not allowed; allowed: \"commit\", or a duration such as \"100 ms\", "
      "1 ms .. 1 min");
  EXPECT_THAT(mistakes_with("[meta]\nsync = 100\n"), HasSubstr("100 has no unit"));
  EXPECT_THAT(mistakes_with("[meta]\nsync = \"2 min\"\n"), HasSubstr("out of range"));
  EXPECT_THAT(mistakes_with("[defaults]\nstrip_bytes = \"1 KiB\"\n"),
              HasSubstr("out of range; allowed: a size such as"));
  EXPECT_THAT(mistakes_with("[defaults]\nstrip_count = -1\n"), HasSubstr("-1 is not allowed"));
  EXPECT_THAT(mistakes_with("[defaults]\nstrip_count = \"3\"\n"), HasSubstr("\"3\" is not allowed"));
  EXPECT_THAT(mistakes_with("[log]\nformat = \"xml\"\n"), HasSubstr("allowed: \"text\" | \"json\""));
  EXPECT_THAT(mistakes_with("[log]\nfile = 3\n"), HasSubstr("log.file: 3 is not allowed"));
  EXPECT_THAT(mistakes_with("[log]\nfile = 1.5\n"), HasSubstr("log.file: 1.5 is not allowed"));
  EXPECT_THAT(mistakes_with("[log]\nfile = \"a\\u0007b\"\n"), HasSubstr("control characters"));
  EXPECT_THAT(mistakes("5eed0001", "0x12"), HasSubstr("fs.id: \"0x12\" is not allowed; allowed: 1 .. 16 hex digits"));
  EXPECT_THAT(mistakes("5eed0001", "0"), HasSubstr("not 0"));
  EXPECT_THAT(mistakes("5eed0001", "11112222333344445"), HasSubstr("fs.id"));
  EXPECT_THAT(mistakes("id = 1", "id = 0"), HasSubstr("servers.id: 0 is out of range; allowed: a number, 1 .. 65535"));
  EXPECT_THAT(mistakes("[\"io\"]", "[]"), HasSubstr("servers.roles: a list of 0"));
  EXPECT_THAT(mistakes("[\"io\"]", "[\"io\", \"io\"]"), HasSubstr("\"io\" stands twice"));
  EXPECT_THAT(mistakes("[\"io\"]", "\"io\""), HasSubstr("servers.roles: \"io\" is not allowed; allowed: a list of"));
  EXPECT_THAT(mistakes("[\"io\"]", "[\"io\", 3]"), HasSubstr("servers.roles: 3 is not allowed"));
}

TEST(Load, ExportsAreReadAndBelongToServersWithTheRoleBlock) {
  const std::string exports =
      "[block]\nport = 1234\nunix = \"b.sock\"\ninsecure = \"yes\"\n"
      "[[exports]]\nname = \"vm1\"\nsource = \"spate:/a\"\nserver = 3\nread_only = \"yes\"\nallow = [\"10.0.0.0/8\", "
      "\"cert:a b\"]\n"
      "[[exports]]\nname = \"vm2\"\nsource = \"/dev/sdx\"\n"
      "[[servers]]\nid = 3\nurls = [\"tcp://127.0.0.1:7409\"]\nroles = [\"block\"]\n";
  const auto loaded = load(input(std::string(kGood) + exports));
  ASSERT_OK(loaded);
  const FileSystemConfig& c = loaded->config;
  EXPECT_TRUE(c.servers[2].roles.block);
  EXPECT_EQ(c.block.port, 1234U);
  EXPECT_EQ(c.block.unix_path, "/etc/spate/b.sock");
  EXPECT_TRUE(c.block.insecure);
  ASSERT_EQ(c.exports.size(), 2U);
  EXPECT_EQ(c.exports[0].server, ServerId(3));
  EXPECT_TRUE(c.exports[0].read_only);
  EXPECT_FALSE(c.exports[1].read_only);
  EXPECT_THAT(c.exports[0].allow, ElementsAre("10.0.0.0/8", "cert:a b"));
  EXPECT_THAT(loaded->origins, testing::Contains(testing::Key("exports[1].source")));
  EXPECT_EQ(load(input(to_toml(c)))->config, c);

  const auto wrong = [&](const std::string& from, const std::string& to) {
    std::string text = std::string(kGood) + exports;
    text.replace(text.find(from), from.size(), to);
    const auto bad = load(input(text));
    return bad ? std::string() : bad.error().context();
  };
  EXPECT_THAT(wrong("spate:/a", "a"), HasSubstr("neither an absolute path nor spate:/PATH"));
  EXPECT_THAT(wrong("server = 3", "server = 2"), HasSubstr("no server 2 with the role block"));
  EXPECT_THAT(wrong("\"vm2\"", "\"vm1\""), HasSubstr("two exports are named \"vm1\""));
  EXPECT_THAT(wrong("name = \"vm2\"\n", ""), HasSubstr("no exports.name is given"));
  EXPECT_THAT(mistakes("[\"io\"]", "[\"io\", \"block\"]"), HasSubstr("the role block and no export"));
  EXPECT_THAT(override_from_argument("exports.name=x").error().context(),
              HasSubstr("exports are set in the file only"));
}

TEST(Load, SeveralMetaServersHaveACoordinatorAndNoOtherRole) {
  const std::string second =
      "[[servers]]\nid = 3\nurls = [\"tcp://127.0.0.1:7402\"]\nroles = [\"meta\"]\nkeyval = \"m3\"\n";
  const auto mistake = [&](std::string_view meta, const std::string& more) {
    const auto bad = load(input(std::string(kGood) + std::string(meta) + more));
    return bad ? std::string() : bad.error().context();
  };
  constexpr std::string_view kMeta = "[meta]\ncoordinator = [\"http://127.0.0.1:2379\"]\n";
  EXPECT_EQ(mistake(kMeta, second), "");
  EXPECT_THAT(mistake("", second), HasSubstr("2 servers have the meta role: meta.coordinator must name"));
  EXPECT_THAT(mistake(kMeta, ""), HasSubstr("meta.coordinator is for two or more servers with the meta role"));
  EXPECT_THAT(mistake("[meta]\ncoordinator = [\"127.0.0.1:2379\"]\n", second),
              HasSubstr("spate.toml:15: \"127.0.0.1:2379\" is no address of etcd"));
  EXPECT_THAT(mistake(std::string(kMeta) + "[network]\nmax_unexpected = \"64KiB\"\n", second),
              HasSubstr("several meta servers need network.max_unexpected"));
  Input set = input(std::string(kGood) + second);
  set.overrides = {{"meta.coordinator", "http://127.0.0.1:2379,http://127.0.0.1:2380", "command line"}};
  const auto loaded = load(set);
  ASSERT_OK(loaded);
  EXPECT_THAT(loaded->config.meta.coordinator, ElementsAre("http://127.0.0.1:2379", "http://127.0.0.1:2380"));
  EXPECT_THAT(mistake("[meta]\ncoordinator = [\"https://127.0.0.1:2379\"]\n", second),
              HasSubstr("https:// in meta.coordinator needs the folder of its certificates"));
  EXPECT_THAT(mistake("[meta]\ncoordinator = [\"http://127.0.0.1:2379\"]\ncoordinator_tls = \"c\"\n", second),
              HasSubstr("with certificates, meta.coordinator names https:// addresses"));
  std::string both = second;
  both.replace(both.find("\"meta\""), 6, "\"meta\", \"io\"");
  EXPECT_THAT(mistake(kMeta, both + "storage = [\"x\"]\n"), HasSubstr("server 3 is one of several meta servers"));
  std::string six = second;
  for (int id = 4; id <= 7; ++id) {
    six += "[[servers]]\nid = " + std::to_string(id) + "\nurls = [\"tcp://127.0.0.1:750" + std::to_string(id) +
           "\"]\nroles = [\"meta\"]\nkeyval = \"m" + std::to_string(id) + "\"\n";
  }
  EXPECT_THAT(mistake(kMeta, six), HasSubstr("at most 5 servers have the meta role"));
}

TEST(Load, MissingKeysAreNamed) {
  EXPECT_EQ(mistakes("id = 2\n", ""), "spate.toml:9: no servers.id is given; allowed: a number, 1 .. 65535");
  EXPECT_THAT(mistakes("id = \"5eed0001\"\n", ""), HasSubstr("no fs.id is given"));
  EXPECT_THAT(mistakes("auth = \"none\"\n", ""),
              HasSubstr("auth = \"key\" needs fs.client_key_file and fs.server_key_file"));
}

TEST(Load, ContradictionsAreReported) {
  EXPECT_EQ(mistakes("id = 2", "id = 1"), "spate.toml:10: two servers have the id 1");
  EXPECT_THAT(mistakes("roles = [\"io\"]", "roles = [\"meta\"]"),
              AllOf(HasSubstr("meta.coordinator must name the etcd cluster"), HasSubstr("no server has the io role")));
  EXPECT_THAT(mistakes("roles = [\"meta\"]\nkeyval = \"meta1\"", "roles = [\"io\"]\nstorage = [\"x\"]"),
              HasSubstr("no server has the meta role"));
  EXPECT_THAT(mistakes("keyval = \"meta1\"\n", ""), HasSubstr("server 1 has the meta role and no keyval folder"));
  EXPECT_THAT(mistakes("storage = [\"a/../data2\", \"/abs\"]\n", ""),
              HasSubstr("server 2 has the io role and no storage"));
  EXPECT_THAT(mistakes("7401", "7400"), HasSubstr("tcp://127.0.0.1:7400 is also an address of server 1"));
  EXPECT_THAT(mistakes("\"/abs\"", "\"data2/\""), HasSubstr("folder /etc/spate/data2 is used twice, by server 2 too"));
  EXPECT_THAT(mistakes("\"/abs\"", "\"./meta1\""), HasSubstr("folder /etc/spate/meta1 is used twice, by server 1 too"));
}

TEST(Load, AMachineThatJoinedNamesOnlyMetaServers) {
  std::string text(kGood);
  text.resize(text.rfind("[[servers]]"));
  const std::string other =
      "[[servers]]\nid = 3\nurls = [\"tcp://127.0.0.1:7405\"]\nroles = [\"meta\"]\nkeyval = \"meta3\"\n";
  EXPECT_OK(load(input(text)));
  EXPECT_OK(load(input(text + other + "[meta]\ncoordinator = [\"http://127.0.0.1:2379\"]\n")));
  const auto refused = load(input(text + other));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("no server has the io role"));
}

TEST(Load, AllNamesOfTheOwnMachineCountAsOneMachine) {
  EXPECT_THAT(mistakes("127.0.0.1:7401", "localhost:7400"),
              HasSubstr("tcp://localhost:7400 is also an address of server 1"));
  const std::string text = replaced(replaced(kGood, "\"/abs\"", "\"meta1\""), "127.0.0.1:7401", "localhost:7401");
  const auto loaded = load(input(text));
  ASSERT_ERRC(loaded, Errc::kInvalidArgument);
  EXPECT_THAT(loaded.error().context(), HasSubstr("folder /etc/spate/meta1 is used twice"));
}

TEST(Load, TheSameFolderOnAnotherMachineIsAnother) {
  std::string text = replaced(replaced(kGood, "\"/abs\"", "\"meta1\""), "127.0.0.1:7401", "node2:7401");
  text = replaced(text, "auth = \"none\"", "client_key_file = \"c\"\nserver_key_file = \"s\"");
  EXPECT_OK(load(input(text)));
}

TEST(Load, WithoutKeysServersAreReachedFromTheirOwnMachineOnly) {
  for (const std::string far : {"tcp://node2:7401", "tcp://10.0.0.2:7401", "tcp://[fe80::1]:7401", "tcp://0.0.0.0:7401",
                                "tcp://[::]:7401", "tcp://127.0.0.example:7401", "ofi+tcp://10.0.0.2:7401"}) {
    const std::string found = mistakes("tcp://127.0.0.1:7401", far);
    EXPECT_THAT(found, HasSubstr("spate.toml:11: "));
    EXPECT_THAT(found, AllOf(HasSubstr("auth = \"none\" admits every client that reaches a server"), HasSubstr(far)));
  }
  for (const std::string near : {"tcp://127.1.2.3:7401", "tcp://[::1]:7401", "tcp://localhost:7401", "shm://two",
                                 "shm:///run/spate/2", "ofi+shm://two", "ofi+tcp://127.0.0.1:7401", "sim://2"}) {
    const auto loaded = load(input(replaced(kGood, "tcp://127.0.0.1:7401", near)));
    EXPECT_OK(loaded) << near;
  }
}

TEST(Load, ProtectionOfDataNeedsKeysOnBothSides) {
  EXPECT_THAT(mistakes_with("[auth]\nprotect = \"data\"\n"), HasSubstr("needs fs.auth = \"key\""));
  const std::string keys = "client_key_file = \"c\"\nserver_key_file = \"s\"\n[auth]\nprotect = \"data\"\n";
  const auto loaded = load(input(replaced(kGood, "auth = \"none\"\n", keys)));
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->config.auth.protect, Protect::kData);
  EXPECT_THAT(mistakes("auth = \"none\"\n", keys + "allow_v1 = \"yes\"\n"), HasSubstr("exclude each other"));
}

TEST(Load, ClientsAndServersNeedDifferentKeyFiles) {
  const std::string keys = "client_key_file = \"k\"\nserver_key_file = \"./k\"";
  EXPECT_THAT(mistakes("auth = \"none\"", keys), HasSubstr("must be two files"));
}

TEST(Load, AllMistakesAreReportedTogetherUpToALimit) {
  EXPECT_THAT(mistakes_with("a1 = 1\na2 = 2\n"), AllOf(HasSubstr("spate.toml:4: "), HasSubstr("\nspate.toml:5: ")));
  std::string many;
  for (int i = 0; i < 200; ++i) many += "x" + std::to_string(i) + " = 1\n";
  EXPECT_THAT(mistakes_with(many), AllOf(HasSubstr("and 180 more"), Not(HasSubstr("x21 "))));
}

TEST(Load, CommandLineWinsOverEnvironmentOverFile) {
  Input in = input(std::string(kGood) + "[meta]\nsync = \"1 s\"\nsession_lease = \"9 s\"\n[log]\nfile = \"a\"\n");
  auto environment = overrides_from_environment({"HOME=/", "SPATE_META_SYNC=2 s", "SPATE_META_SESSION_LEASE=8 s",
                                                 "SPATE_DEFAULTS_STRIP_COUNT=2", "SPATE_BIN=/x"});
  ASSERT_OK(environment);
  in.overrides = *environment;
  in.overrides.push_back(*override_from_argument("meta.sync=3 s"));
  const auto loaded = load(in);
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->config.meta.sync, std::chrono::seconds(3));
  EXPECT_EQ(loaded->config.meta.session_lease, std::chrono::seconds(8));
  EXPECT_EQ(loaded->config.defaults.strip_count, 2U);
  EXPECT_EQ(loaded->config.log.file, "/etc/spate/a");
  EXPECT_EQ(loaded->origins.at("meta.sync"), "command line");
  EXPECT_EQ(loaded->origins.at("meta.session_lease"), "environment SPATE_META_SESSION_LEASE");
}

TEST(Load, AWrongOverrideIsNamedByItsOrigin) {
  EXPECT_THAT(overrides_from_environment({"SPATE_META_SINC=1"}).error().context(),
              HasSubstr("environment SPATE_META_SINC: unknown key \"meta.sinc\" (did you mean \"sync\"?)"));
  EXPECT_THAT(overrides_from_environment({"SPATE_SERVERS_ID=1"}).error().context(), HasSubstr("in the file only"));
  EXPECT_THAT(override_from_argument("mata.sync=1").error().context(), HasSubstr("did you mean \"meta\"?"));
  EXPECT_THAT(override_from_argument("meta.sync").error().context(), HasSubstr("is not section.key=value"));
  Input in = input(kGood);
  in.overrides.push_back(*override_from_argument("defaults.strip_count=many"));
  EXPECT_THAT(load(in).error().context(), HasSubstr("command line: defaults.strip_count: \"many\" is not allowed"));
}

TEST(Load, UsersOfSharedMemoryAreChecked) {
  for (const char* good : {"same", "any", "1000", "0,4294967295"}) {
    Input in = input(kGood);
    in.overrides.push_back(*override_from_argument(std::string("network.shm_users=") + good));
    const auto loaded = load(in);
    ASSERT_OK(loaded) << good;
    EXPECT_EQ(loaded->config.network.shm_users, good);
  }
  for (const char* bad : {"all", "1000,", "1,,2", "-1", "4294967296"}) {
    Input in = input(kGood);
    in.overrides.push_back(*override_from_argument(std::string("network.shm_users=") + bad));
    EXPECT_THAT(load(in).error().context(), HasSubstr("at most 256 user ids")) << bad;
  }
}

TEST(CheckUrl, AcceptsAddressesAndNothingElse) {
  for (const char* good : {"tcp://127.0.0.1:7400", "tcp://node-1.example:65535", "tcp://[::1]:1", "shm://a.b_c-1",
                           "shm:///run/spate/3.sock", "ofi+verbs://10.0.0.1:7400", "ofi+shm://one", "sim://12"}) {
    EXPECT_OK(check_url(good)) << good;
  }
  for (const char* bad : {"",           "tcp",           "tcp:/a:1",   "://a:1",        "tcp://",     "tcp://a",
                          "tcp://a:",   "tcp://:1",      "tcp://a:0",  "tcp://a:65536", "tcp://a:1x", "tcp://a b:1",
                          "tcp://a:-1", "ofi+shm://a/b", "tcp://[]:1", "tcp://::1:1",   "shm://",     "shm://a/b",
                          "ofi+://a:1", "ofi://a:1",     "sim://x",    "http://a:1",    "TCP://a:1",  "shm:///",
                          "shm:///run/"}) {
    EXPECT_ERRC(check_url(bad), Errc::kBadAddress) << bad;
  }
}

}  // namespace
}  // namespace spate::config
