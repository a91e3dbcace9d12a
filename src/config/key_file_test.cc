// SPDX-License-Identifier: Apache-2.0
#include "config/key_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/expect.h"

namespace spate::config {
namespace {

using testing::HasSubstr;

struct KeyFileTest : testing::Test {
  KeyFileTest() {
    std::string name = testing::TempDir() + "spate_key_XXXXXX";
    folder = ::mkdtemp(name.data());
    path = folder / "client.key";
  }
  ~KeyFileTest() override { std::filesystem::remove_all(folder); }
  void write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path) << text;
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  std::filesystem::path folder;
  std::string path;
};

TEST_F(KeyFileTest, ANewKeyFileIsPrivateAndReadBack) {
  SeededRandom random(7);
  const auto made = create_key_file(path, random);
  ASSERT_OK(made);
  const auto read = read_key_file(path);
  ASSERT_OK(read);
  EXPECT_EQ(*read, *made);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_ERRC(create_key_file(path, random), Errc::kExists);
  EXPECT_EQ(*read_key_file(path), *made);
}

TEST_F(KeyFileTest, AFileThatOthersMayUseIsRefusedWithTheRemedy) {
  for (const mode_t mode : {0640U, 0604U, 0644U, 0660U, 0601U}) {
    write(std::string(64, 'a'), mode);
    const auto result = read_key_file(path);
    EXPECT_ERRC(result, Errc::kPermissionDenied) << mode;
    EXPECT_THAT(result.error().message(), HasSubstr("chmod 600 " + path));
  }
}

TEST_F(KeyFileTest, TheFirstKeyIsUsedAndTheOthersAreAccepted) {
  const std::string a(64, 'a');
  const std::string b(64, 'b');
  for (const std::string& end : {std::string(), std::string("\n")}) {
    write(a + "\n" + b + end);
    const auto keys = read_keys(path);
    ASSERT_OK(keys);
    EXPECT_EQ(keys->used.at(0), std::byte{0xaa});
    ASSERT_EQ(keys->others.size(), 1U);
    EXPECT_EQ(keys->others[0].at(0), std::byte{0xbb});
    EXPECT_EQ(read_key_file(path)->at(0), std::byte{0xaa});
  }
  std::string most;
  for (std::size_t i = 0; i < kMaxKeys; ++i) most += a + "\n";
  write(most);
  EXPECT_EQ(read_keys(path)->others.size(), kMaxKeys - 1);
  for (const std::string& bad :
       {most + a + "\n", a + "\n\n", "\n" + a, a + "\n" + b + "c\n", a + b, a + " " + b, a + "\r\n" + b + "\r\n"}) {
    write(bad);
    EXPECT_ERRC(read_keys(path), Errc::kInvalidArgument) << bad;
  }
}

TEST_F(KeyFileTest, OnlyCompleteKeysAreAccepted) {
  write(std::string(64, 'A') + "\n");
  EXPECT_EQ(read_key_file(path)->at(31), std::byte{0xaa});
  for (const std::string& bad : {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(63, 'a') + "g",
                                 std::string(64, 'a') + "\n\n", std::string(1'000'000, 'a')}) {
    write(bad);
    EXPECT_ERRC(read_key_file(path), Errc::kInvalidArgument) << bad.size();
  }
}

TEST_F(KeyFileTest, APathThatIsNotARegularFileIsRefusedAtOnce) {
  EXPECT_ERRC(read_key_file(path), Errc::kNotFound);
  const auto unnamed = read_key_file("");
  ASSERT_ERRC(unnamed, Errc::kInvalidArgument);
  EXPECT_NE(unnamed.error().message().find("fs.server_key_file"), std::string::npos) << unnamed.error().message();
  EXPECT_ERRC(read_key_file(folder), Errc::kInvalidArgument);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_ERRC(read_key_file(path), Errc::kInvalidArgument);
}

ClientKey some_user_key() {
  ClientKey key(spate::Key{std::byte{0x11}});
  key.issuer.fill(std::byte{0x22});
  key.restrictions = {std::byte{0x33}, std::byte{0x44}};
  return key;
}

TEST_F(KeyFileTest, AUsersKeyIsReadBackByClientsOnly) {
  const ClientKey key = some_user_key();
  ASSERT_OK(create_user_key_file(path, key));
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  const auto read = read_client_key(path);
  ASSERT_OK(read);
  EXPECT_EQ(*read, key);
  EXPECT_TRUE(read->is_users());
  for (const auto& refused : {read_keys(path).error(), read_key_file(path).error()}) {
    EXPECT_EQ(refused.code(), Errc::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("the key of one user"));
  }
  EXPECT_ERRC(create_user_key_file(path, key), Errc::kExists);
}

/// The path is for people: it is in the comment, whatever it contains, and changes nothing.
TEST_F(KeyFileTest, AUsersKeyShowsTheDirectoryThatItIsGoodFor) {
  const ClientKey key = some_user_key();
  const std::string text = user_key_text(key, "/data/of\nalice");
  EXPECT_THAT(text, HasSubstr("good for /data/of\\x0aalice only"));
  const auto read = parse_client_key(text, path);
  ASSERT_OK(read);
  EXPECT_EQ(*read, key);
}

TEST_F(KeyFileTest, AClientKeyMayBeTheFileSystemsOwn) {
  write(std::string(64, 'a') + "\n" + std::string(64, 'b') + "\n");
  const auto read = read_client_key(path);
  ASSERT_OK(read);
  EXPECT_FALSE(read->is_users());
  EXPECT_EQ(read->secret, read_keys(path)->used);
}

TEST_F(KeyFileTest, ADamagedUsersKeyIsRefused) {
  const std::string whole = user_key_text(some_user_key());
  ASSERT_OK(parse_client_key(whole, "/k"));
  const std::string line = whole.substr(whole.find('\n') + 1);
  EXPECT_OK(parse_client_key(line, "/k")) << "the line for people may go";
  for (const std::string& bad : {whole.substr(0, whole.size() - 2), whole + "x", line + line, line.substr(0, 20),
                                 "# only words\n" + std::string(), "spate-user-key  22 33\n" + std::string(),
                                 std::string("spate-user-key 3344 2222222222222222 11"), std::string(5000, '#')}) {
    const auto refused = parse_client_key(bad, "/k");
    EXPECT_ERRC(refused, Errc::kInvalidArgument) << bad;
    EXPECT_THAT(refused.error().message(), HasSubstr("/k"));
  }
  write(std::string(100'000, '#'));
  EXPECT_ERRC(read_client_key(path), Errc::kInvalidArgument);
}

}  // namespace
}  // namespace spate::config
