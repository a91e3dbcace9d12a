// SPDX-License-Identifier: Apache-2.0
#include "log/log.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/expect.h"
#include "log/fields.h"
#include "log/output.h"
#include "log/rate_limit.h"

namespace spate {
using TestTraceId = StrongId<struct TraceIdTag>;
using TestId = StrongId<struct TestIdTag, std::uint32_t>;

namespace log {
namespace {

using testing::HasSubstr;
using testing::Not;

struct LogTest : testing::Test {
  ~LogTest() override {
    EXPECT_OK(set_levels("info"));
    set_format(Format::kText);
  }
  ManualClock clock{WallTime{1'795'232'760'123'456'789}};
  Capture capture{clock};
};

/// The most detailed level that the folder writes.
Level level_of(Source folder) {
  Level most = Level::off;
  for (const Level level : {Level::error, Level::warn, Level::info, Level::debug, Level::trace}) {
    if (folder.enabled(level)) most = level;
  }
  return most;
}

TEST_F(LogTest, ALineHasTimeLevelFolderAndFields) {
  SPATE_LOG("bmi/tcp", warn, "connection lost peer={} tries={}", "tcp://a:1", 3);
  EXPECT_EQ(capture.text(), "2026-11-21T03:46:00.123456Z warn bmi/tcp connection lost peer=tcp://a:1 tries=3\n");
}

TEST_F(LogTest, NothingIsEvaluatedWhenOff) {
  int evaluated = 0;
  SPATE_LOG("test", debug, "x={}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  EXPECT_EQ(capture.text(), "");
  ASSERT_OK(set_level("test", Level::debug));
  SPATE_LOG("test", debug, "x={}", ++evaluated);
  EXPECT_EQ(evaluated, 1);
  SPATE_LOG("test", trace, "x={}", ++evaluated);
  EXPECT_EQ(evaluated, 1);
}

TEST_F(LogTest, SpecIsAppliedWholeOrNotAtAll) {
  ASSERT_OK(set_levels("error,bmi=debug,rpc=off"));
  EXPECT_EQ(level_of("bmi"), Level::debug);
  EXPECT_EQ(level_of("rpc"), Level::off);
  EXPECT_EQ(level_of("flow"), Level::error);
  for (const char* bad : {"trace,bim=debug", "trace,bmi=loud", "trace,=debug", "bmi=debug=x", "TRACE", " info"}) {
    EXPECT_ERRC(set_levels(bad), Errc::kInvalidArgument) << bad;
    EXPECT_EQ(level_of("flow"), Level::error) << bad;
  }
  EXPECT_THAT(set_levels("bim=debug").error().message(), HasSubstr("no log folder \"bim\""));
}

TEST_F(LogTest, ALoggerAddsItsFields) {
  const Logger logger("server", "server=3");
  SPATE_LOG(logger, info, "started");
  EXPECT_THAT(capture.text(), HasSubstr(" info server started server=3\n"));
}

TEST_F(LogTest, OwnTypesHaveOneForm) {
  SPATE_LOG("test", info, "a={} b={} c={} d={}", TestTraceId(0xabc), TestId(7), Errc::kTimeout,
            Error(Errc::kNotFound, "read \"k\""));
  EXPECT_THAT(capture.text(), HasSubstr("a=0000000000000abc b=7 c=timeout "
                                        "d=\"read \\\"k\\\": no such file or directory\"\n"));
}

TEST_F(LogTest, ForeignTextCannotForgeALine) {
  SPATE_LOG("test", info, "name={}", "x\n2026 error bmi forged\x1b[2J");
  EXPECT_THAT(capture.text(), HasSubstr("name=x\\x0a2026 error bmi forged\\x1b[2J\n"));
}

TEST_F(LogTest, AnEndlessValueIsCut) {
  SPATE_LOG("test", info, "name={}", std::string(1'000'000, 'x'));
  EXPECT_LT(capture.text().size(), kMaxLineBytes + 100);
  EXPECT_THAT(capture.text(), testing::EndsWith("x...\n"));
}

TEST_F(LogTest, JsonSeparatesMessageAndFields) {
  set_format(Format::kJson);
  SPATE_LOG("rpc", error, "call failed peer={} name={} after retries", "a\"b", Quoted{"two \"words\"\n"});
  EXPECT_EQ(capture.text(),
            "{\"time\":\"2026-11-21T03:46:00.123456Z\",\"level\":\"error\",\"folder\":\"rpc\","
            "\"message\":\"call failed after retries\",\"fields\":{\"peer\":\"a\\\"b\","
            "\"name\":\"two \\\"words\\\"\\u000a\"}}\n");
}

TEST_F(LogTest, ErrnoSurvives) {
  errno = EBADF;
  SPATE_LOG("test", info, "x");
  EXPECT_EQ(errno, EBADF);
}

TEST_F(LogTest, RateLimitLetsOneThroughPerIntervalAndCountsTheRest) {
  RateLimit limit(clock, std::chrono::seconds(10));
  for (int i = 0; i < 5; ++i) {
    if (const auto more = limit.admit()) SPATE_LOG("bmi", warn, "unreachable{}", *more);
  }
  clock.advance(std::chrono::seconds(10));
  if (const auto more = limit.admit()) SPATE_LOG("bmi", warn, "unreachable{}", *more);
  EXPECT_THAT(capture.text(), testing::MatchesRegex(".*unreachable\n.*unreachable \\(4 more suppressed\\)\n"));
  EXPECT_EQ(limit.admit(), std::nullopt);
  EXPECT_EQ(limit.reset().count, 1U);
  EXPECT_NE(limit.admit(), std::nullopt);
}

TEST_F(LogTest, ThreadsDoNotMixTheirLines) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i) SPATE_LOG("test", info, "thread={} end", t);
    });
  }
  for (auto& thread : threads) thread.join();
  std::istringstream lines(capture.text());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_THAT(line, testing::EndsWith(" end"));
  EXPECT_EQ(count, 400);
}

std::string slurp(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(LogFile, IsAppendedAndReopenedForRotation) {
  const std::string path = testing::TempDir() + "spate_log_test_" + std::to_string(::getpid());
  ASSERT_OK(open_file(path));
  SPATE_LOG("test", info, "one");
  ASSERT_EQ(::rename(path.c_str(), (path + ".1").c_str()), 0);
  SPATE_LOG("test", info, "two");
  ASSERT_OK(reopen_file());
  SPATE_LOG("test", info, "three");
  close_file();
  EXPECT_THAT(slurp(path + ".1"),
              testing::AllOf(HasSubstr("test one\n"), HasSubstr("test two\n"), Not(HasSubstr("three"))));
  EXPECT_THAT(slurp(path), testing::AllOf(HasSubstr("test three\n"), Not(HasSubstr("two"))));
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U & ~0640U, 0U);
  ::unlink(path.c_str());
  ::unlink((path + ".1").c_str());
}

TEST(LogFile, AFileThatCannotBeOpenedIsNamed) {
  const auto result = open_file("/nonexistent/folder/log");
  EXPECT_ERRC(result, Errc::kNotFound);
  EXPECT_THAT(result.error().message(), HasSubstr("/nonexistent/folder/log"));
}

TEST(LogFile, ALineThatCannotBeWrittenIsLostAndTheCallReturns) {
  ASSERT_OK(open_file("/dev/full"));
  SPATE_LOG("test", info, "lost");
  close_file();
  const std::string path = testing::TempDir() + "spate_log_test_" + std::to_string(::getpid());
  ASSERT_OK(open_file(path));
  SPATE_LOG("test", info, "kept");
  close_file();
  EXPECT_THAT(slurp(path), testing::AllOf(HasSubstr("test kept\n"), Not(HasSubstr("lost"))));
  ::unlink(path.c_str());
}

}  // namespace
/// Without an explicit option, no log goes to a folder that another user can change.
TEST(OwnFolder, LinksAndFoldersOfOthersAreRefused) {
  const std::string top = testing::TempDir() + "own-log-" + std::to_string(::getpid());
  std::filesystem::create_directories(top + "/fs/log");
  std::filesystem::create_directories(top + "/elsewhere");
  ::chmod((top + "/fs").c_str(), 0755);
  ::chmod((top + "/fs/log").c_str(), 0755);
  const std::string path = top + "/fs/log/mount.log";
  ASSERT_OK(open_file_in_own_folder(path));
  ASSERT_OK(reopen_file());
  // The file is a link, or has another name.
  std::filesystem::remove(path);
  std::filesystem::create_symlink(top + "/elsewhere/target", path);
  EXPECT_ERRC(open_file_in_own_folder(path), Errc::kSymlinkLoop);
  EXPECT_ERRC(reopen_file(), Errc::kSymlinkLoop);
  EXPECT_TRUE(std::filesystem::is_empty(top + "/elsewhere"));
  std::filesystem::remove(path);
  std::ofstream(top + "/elsewhere/other") << "x";
  std::filesystem::create_hard_link(top + "/elsewhere/other", path);
  EXPECT_ERRC(open_file_in_own_folder(path), Errc::kNotPermitted);
  std::filesystem::remove(path);
  // Others can write to the folder, or to the one that it is in.
  for (const std::string& open : {top + "/fs/log", top + "/fs"}) {
    ::chmod(open.c_str(), 0777);
    EXPECT_ERRC(open_file_in_own_folder(path), Errc::kNotPermitted) << open;
    ::chmod(open.c_str(), 0755);
  }
  // The folder is a link.
  std::filesystem::remove_all(top + "/fs/log");
  std::filesystem::create_directory_symlink(top + "/elsewhere", top + "/fs/log");
  EXPECT_ERRC(open_file_in_own_folder(path), Errc::kNotPermitted);
  EXPECT_FALSE(std::filesystem::exists(top + "/elsewhere/mount.log"));
  close_file();
  std::filesystem::remove_all(top);
}

}  // namespace log
}  // namespace spate
