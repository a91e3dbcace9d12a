// SPDX-License-Identifier: Apache-2.0
// A process that commits is killed at any moment. When the store is opened again, each acknowledged commit must be
// there. The last, unacknowledged one must be there whole or not at all.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <optional>

#include "base/check.h"
#include "base/expect.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "trove/keyval_harness.h"
#include "trove/rocksdb/rocksdb_keyval.h"

extern char** environ;

namespace spate::trove {
namespace {

/// The committing program and its output.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    std::array<int, 2> ends{};
    SPATE_CHECK(::pipe(ends.data()) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    arguments.insert(arguments.begin(), SPATE_TEST_COMMIT_CHILD);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    SPATE_CHECK(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    out_.reset(::fdopen(ends[0], "r"));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }

  /// The next line without its end. Nothing at the end of the output.
  std::optional<std::string> line() {
    std::array<char, 4096> buffer;
    if (std::fgets(buffer.data(), buffer.size(), out_.get()) == nullptr) return std::nullopt;
    std::string text = buffer.data();
    if (text.empty() || text.back() != '\n') return std::nullopt;  // the kill has cut it off
    text.pop_back();
    return text;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  pid_t pid_ = -1;
  std::unique_ptr<std::FILE, Close> out_;
};

std::string value_of(Keyval& store, const std::string& key) {
  const auto transaction = store.begin();
  KeyvalCompletion done;
  if (!transaction->post_get(as_bytes(key), ReadMode::kSnapshot, nullptr, done)) {
    while (store.test({&done, 1}) == 0) sleep_until_event(store);
  }
  EXPECT_EQ(done.status, Errc::kOk);
  return done.value ? std::string(as_text(*done.value)) : "(none)";
}

std::string expected(int number) {
  return std::to_string(number) + std::string(static_cast<std::size_t>(number % 700), 'x');
}

TEST(KeyvalKillTest, KilledProcessLosesNothingThatWasAcknowledged) {
  SeededRandom random(7);
  for (int round = 0; round < 4; ++round) {
    const ScratchFolder folder;
    RocksdbOptions options;
    options.folder = folder.path() + "/store";
    int last = -1;
    {
      Child child({options.folder});
      const int enough = 100 + static_cast<int>(random.below(3000));
      while (last < enough) {
        const auto line = child.line();
        ASSERT_NE(line, std::nullopt);
        last = std::stoi(*line);
      }
      child.kill();
      while (const auto line = child.line()) last = std::stoi(*line);
    }
    const auto opened = open_rocksdb(options);
    ASSERT_OK(opened);
    Keyval& store = **opened;
    for (int i = 0; i <= last; ++i) ASSERT_EQ(value_of(store, "number" + std::to_string(i)), expected(i));
    const int found = std::stoi(value_of(store, "last"));
    EXPECT_GE(found, last);
    EXPECT_LE(found, last + 1);  // one more commit may have been in flight
    EXPECT_EQ(value_of(store, "number" + std::to_string(found)), expected(found));
    EXPECT_EQ(value_of(store, "number" + std::to_string(found + 1)), "(none)");
  }
}

TEST(KeyvalKillTest, FolderOfAnotherProcessIsBusyUntilItDies) {
  const ScratchFolder folder;
  RocksdbOptions options;
  options.folder = folder.path() + "/store";
  Child child({options.folder});
  ASSERT_EQ(child.line(), "0");
  const auto second = open_rocksdb(options);
  ASSERT_ERRC(second, Errc::kBusy);
  EXPECT_ERRC(second, Errc::kBusy);
  EXPECT_NE(second.error().message().find("another spated uses this folder"), std::string::npos)
      << second.error().message();
  child.kill();
  const auto third = open_rocksdb(options);
  EXPECT_OK(third);
  Child late({options.folder, "once"});
  const auto refusal = late.line();
  ASSERT_NE(refusal, std::nullopt);
  EXPECT_NE(refusal->find("another spated uses this folder"), std::string::npos) << *refusal;
}

}  // namespace
}  // namespace spate::trove
