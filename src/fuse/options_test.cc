// SPDX-License-Identifier: Apache-2.0
#include "fuse/options.h"

#include "base/expect.h"

namespace spate::fuse {
namespace {

TEST(MountOptions, AcceptsTheArgumentsThatMountPassesToItsHelper) {
  const auto options = parse_command_line(
      {"/etc/spate.toml", "/mnt/a", "-s", "-n", "-o", "ro,_netdev,allow_other,x-systemd.automount,noexec"});
  ASSERT_OK(options);
  EXPECT_EQ(options->config_file, "/etc/spate.toml");
  EXPECT_EQ(options->directory, "/mnt/a");
  EXPECT_TRUE(options->read_only) << "the list has ro";
  EXPECT_TRUE(options->allow_other) << "the list has allow_other";
  EXPECT_TRUE(options->no_exec) << "the list has noexec";
  EXPECT_TRUE(options->no_suid) << "nosuid is the default";
  EXPECT_FALSE(options->foreground) << "no -f was given";
}

TEST(MountOptions, LaterOptionsWin) {
  const auto options = parse_command_line({"-f", "-oro,soft", "-o", "rw,hard,suid", "a", "b"});
  ASSERT_OK(options);
  EXPECT_FALSE(options->read_only) << "rw came after ro";
  EXPECT_FALSE(options->soft) << "hard came after soft";
  EXPECT_FALSE(options->no_suid) << "suid was given";
  EXPECT_TRUE(options->foreground) << "-f was given";
}

TEST(MountOptions, GatheredWritesTakeAPartOfTheMemory) {
  MountOptions options;
  EXPECT_EQ(gather_pieces(options), 32U) << "the default";
  const unsigned workers = worker_limit(options);
  EXPECT_OK(parse_option_list("nogather", options));
  EXPECT_EQ(gather_pieces(options), 0U);
  EXPECT_GT(worker_limit(options), workers);
  EXPECT_OK(parse_option_list("gather", options));
  EXPECT_EQ(worker_limit(options), workers);
}

/// Returns which of gather and delegate these options turn on.
std::string decided_by(const std::string& list) {
  const auto options = parse_command_line({"-o", list, "a", "b"});
  EXPECT_OK(options) << list;
  return options ? decided_options(*options) : "";
}

TEST(MountOptions, GatherAndDelegateWhereOtherOptionsAllowIt) {
  EXPECT_EQ(decided_by(""), "gather,delegate");
  EXPECT_EQ(decided_by("nogather"), "delegate");
  EXPECT_EQ(decided_by("nodelegate"), "gather");
  EXPECT_EQ(decided_by("nogather,nodelegate"), "");
  EXPECT_EQ(decided_by("nogather,gather,delegate"), "gather,delegate");
  EXPECT_EQ(decided_by("cache=none"), "delegate");
  EXPECT_EQ(decided_by("cache=writeback,nodelegate"), "");
  EXPECT_EQ(decided_by("noleases"), "");
}

TEST(MountOptions, GatherAndDelegateAreRefusedWhereOtherOptionsPreventThem) {
  EXPECT_ERRC(parse_command_line({"-o", "gather,noleases", "a", "b"}), Errc::kInvalidArgument);
  EXPECT_ERRC(parse_command_line({"-o", "delegate,noleases", "a", "b"}), Errc::kInvalidArgument);
  EXPECT_ERRC(parse_command_line({"-o", "gather,cache=none", "a", "b"}), Errc::kInvalidArgument);
}

TEST(MountOptions, ValuesAreChecked) {
  MountOptions options;
  EXPECT_OK(parse_option_list("cache=writeback,threads=8,readahead=1MiB,log=/tmp/x", options));
  EXPECT_EQ(options.cache, CacheMode::kWriteback);
  EXPECT_OK(parse_option_list("noleases,leases,noatime", options));
  EXPECT_EQ(options.leases, "on");
  EXPECT_EQ(options.atime, "noatime");
  EXPECT_EQ(options.threads, 8U);
  EXPECT_GT(options.busy_poll, Duration(0));
  EXPECT_OK(parse_option_list("busy_poll=2ms", options));
  EXPECT_EQ(options.busy_poll, std::chrono::milliseconds(2));
  EXPECT_OK(parse_option_list("busy_poll=0", options));
  EXPECT_EQ(options.busy_poll, Duration(0));
  EXPECT_FALSE(options.kernel_keeps_attributes) << "mount is the default";
  EXPECT_OK(parse_option_list("attr_cache=kernel", options));
  EXPECT_TRUE(options.kernel_keeps_attributes) << "attr_cache=kernel was given";
  EXPECT_FALSE(options.kernel_keeps_names) << "attr_cache=kernel was given";
  EXPECT_OK(parse_option_list("attr_cache=names", options));
  EXPECT_TRUE(options.kernel_keeps_names) << "attr_cache=names was given";
  EXPECT_OK(parse_option_list("attr_cache=mount", options));
  EXPECT_FALSE(options.kernel_keeps_names) << "attr_cache=mount was given last";
  EXPECT_FALSE(options.kernel_keeps_attributes) << "attr_cache=mount was given last";
  EXPECT_EQ(readdirplus_word(options), "auto");
  for (const std::string word : {"no", "yes", "auto"}) {
    EXPECT_OK(parse_option_list("readdirplus=" + word, options));
    EXPECT_EQ(readdirplus_word(options), word);
  }
  EXPECT_EQ(options.readahead, 1U << 20U);
  EXPECT_EQ(options.log_file, "/tmp/x");
  EXPECT_OK(parse_option_list("memory=16MiB,threads=4", options));
  EXPECT_LE(worker_limit(options) * kWorkerBytes, std::uint64_t{16} << 20U);
  EXPECT_GE(worker_limit(options), 7U);
  EXPECT_OK(parse_option_list("threads=64", options));
  EXPECT_EQ(worker_limit(options), 64U) << "as many as are kept";
  for (const char* wrong : {"memory",
                            "memory=1MiB",
                            "memory=2GiB",
                            "memory=much",
                            "cache=some",
                            "cache",
                            "threads=0",
                            "threads=65",
                            "threads=4x",
                            "threads=",
                            "attr_cache",
                            "attr_cache=none",
                            "readdirplus",
                            "readdirplus=some",
                            "readahead=1TiB",
                            "readahead=much",
                            "busy_poll",
                            "busy_poll=soon",
                            "busy_poll=11ms",
                            "log=x",
                            "ro=1"}) {
    const auto parsed = parse_option_list(wrong, options);
    ASSERT_ERRC(parsed, Errc::kInvalidArgument) << wrong;
    EXPECT_ERRC(parsed, Errc::kInvalidArgument) << wrong;
  }
}

TEST(MountOptions, AnUnknownOptionIsNamedWithTheKnownOptions) {
  MountOptions options;
  const auto parsed = parse_option_list("ro,chace=none", options);
  ASSERT_ERRC(parsed, Errc::kInvalidArgument);
  EXPECT_NE(parsed.error().message().find("\"chace\""), std::string::npos);
  EXPECT_NE(parsed.error().message().find("cache"), std::string::npos);
}

TEST(MountOptions, WithoutLeasesTheKernelMayKeepNothing) {
  for (const char* given : {"noleases,attr_cache=kernel", "attr_cache=kernel,noleases"}) {
    const auto parsed = parse_command_line({"a", "b", "-o", given});
    ASSERT_ERRC(parsed, Errc::kInvalidArgument) << given;
    EXPECT_NE(parsed.error().message().find("leases"), std::string::npos);
  }
  EXPECT_OK(parse_command_line({"a", "b", "-o", "attr_cache=kernel,noleases,leases"}));
}

TEST(MountOptions, TheTypeThatMountPassesIsAccepted) {
  for (const char* type : {"spate", "fuse.spate"}) EXPECT_OK(parse_command_line({"a", "b", "-o", "rw", "-t", type}));
  EXPECT_ERRC(parse_command_line({"a", "b", "-t", "ext4"}), Errc::kInvalidArgument);
  EXPECT_ERRC(parse_command_line({"a", "b", "-t"}), Errc::kInvalidArgument);
}

TEST(MountOptions, AllGivenOptionsAreJoinedToOneList) {
  EXPECT_EQ(given_options({"a", "b", "-f"}), "");
  EXPECT_EQ(given_options({"a", "-o", "ro,soft", "b", "-ocache=none", "-n", "-o"}), "ro,soft,cache=none,");
}

TEST(MountOptions, OptionsThatTheKernelShowsAreAccepted) {
  MountOptions options;
  const auto parsed = parse_option_list(
      "rw,nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,allow_other,max_read=1048576,blksize=4096",
      options);
  ASSERT_OK(parsed);
  EXPECT_TRUE(options.allow_other) << "the list has allow_other";
}

TEST(MountOptions, TheSourceIsTheGivenNameMadeAbsolute) {
  EXPECT_EQ(absolute_source("/a/b/../fs/"), "/a/fs");
  EXPECT_EQ(absolute_source("/a//./spate.toml"), "/a/spate.toml");
  EXPECT_EQ(absolute_source("/"), "/");
  MountOptions options;
  EXPECT_OK(parse_option_list("fsname=store", options));
  EXPECT_EQ(source_option(options), "fsname=store");
  options.source = "/a,b\\c";
  EXPECT_EQ(source_option(options), "fsname=/a\\,b\\\\c");
  EXPECT_ERRC(parse_option_list("fsname=", options), Errc::kInvalidArgument);
}

TEST(MountOptions, TwoNamesAreNeeded) {
  EXPECT_ERRC(parse_command_line({}), Errc::kInvalidArgument);
  EXPECT_ERRC(parse_command_line({"a"}), Errc::kInvalidArgument);
  EXPECT_ERRC(parse_command_line({"a", "b", "c"}), Errc::kInvalidArgument);
  EXPECT_ERRC(parse_command_line({"a", "b", "-o"}), Errc::kInvalidArgument);
  EXPECT_ERRC(parse_command_line({"a", "b", "-x"}), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace spate::fuse
