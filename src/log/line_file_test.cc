// SPDX-License-Identifier: Apache-2.0
#include "log/line_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/expect.h"

namespace spate::log {
namespace {

class LineFileTest : public ::testing::Test {
 protected:
  LineFileTest() {
    std::string name = ::testing::TempDir() + "line_file.XXXXXX";
    folder = ::mkdtemp(name.data());
    path = folder + "/lines";
  }
  ~LineFileTest() override { std::filesystem::remove_all(folder); }
  static std::string text_of(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  std::string folder;
  std::string path;
};

TEST_F(LineFileTest, LinesGoToTheEndOfTheFile) {
  std::ofstream(path) << "earlier\n";
  const auto file = LineFile::open(path);
  ASSERT_OK(file);
  ASSERT_OK((*file)->write("one"));
  ASSERT_OK((*file)->write(""));
  EXPECT_EQ(text_of(path), "earlier\none\n\n");
}

TEST_F(LineFileTest, OtherUsersCannotReadTheFile) {
  const auto file = LineFile::open(path);
  ASSERT_OK(file);
  struct stat st{};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07U, 0U);
}

TEST_F(LineFileTest, AfterARotationItWritesToTheNewFile) {
  const auto file = LineFile::open(path);
  ASSERT_OK(file);
  ASSERT_OK((*file)->write("old"));
  std::filesystem::rename(path, path + ".1");
  ASSERT_OK((*file)->write("still old"));
  ASSERT_OK((*file)->reopen());
  ASSERT_OK((*file)->write("new"));
  EXPECT_EQ(text_of(path + ".1"), "old\nstill old\n");
  EXPECT_EQ(text_of(path), "new\n");
}

TEST_F(LineFileTest, ARotationThatFailsKeepsTheOldFile) {
  const auto file = LineFile::open(path);
  ASSERT_OK(file);
  std::filesystem::rename(folder, folder + ".away");
  EXPECT_ERRC((*file)->reopen(), Errc::kNotFound);
  ASSERT_OK((*file)->write("on"));
  std::filesystem::rename(folder + ".away", folder);
  EXPECT_EQ(text_of(path), "on\n");
}

TEST_F(LineFileTest, ALineThatCannotBeWrittenIsAnError) {
  const auto file = LineFile::open("/dev/full");
  ASSERT_OK(file);
  EXPECT_ERRC((*file)->write("one"), Errc::kNoSpace);
}

/// Limits the size of files that this process may write.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

/// Otherwise the next event would look like the end of the line that was cut.
TEST_F(LineFileTest, AfterATruncatedLineTheNextOneBeginsANewLine) {
  const auto file = LineFile::open(path);
  ASSERT_OK(file);
  {
    const FileSizeLimit limit(3);
    EXPECT_ERRC((*file)->write("abcdef"), Errc::kNoSpace);
  }
  ASSERT_OK((*file)->write("next"));
  ASSERT_OK((*file)->write("last"));
  EXPECT_EQ(text_of(path), "abc\nnext\nlast\n");
}

TEST(JsonText, NoTextEndsItselfOrTheLine) {
  std::string out;
  append_json_text(out, std::string_view("a\"b\\c\nd\0e\x7f\xc3\xa4", 12));
  EXPECT_EQ(out, R"("a\"b\\c\u000ad\u0000e\u007f\u00c3\u00a4")");
}

}  // namespace
}  // namespace spate::log
