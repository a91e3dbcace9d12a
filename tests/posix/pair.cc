// SPDX-License-Identifier: Apache-2.0
#include "tests/posix/pair.h"

#include <fcntl.h>

#include <algorithm>
#include <sstream>

namespace spate::posix_test {
namespace {

struct Name {
  std::string path;
  int type = 0;
};

/// The entries without "." and "..".
std::vector<Name> names_in(Frontend& frontend, const std::string& directory) {
  const Outcome fd = frontend.open(directory, O_RDONLY | O_DIRECTORY, 0);
  EXPECT_GE(fd.number, 0) << directory;
  std::istringstream in(frontend.list(static_cast<int>(fd.number)).text);
  frontend.close(static_cast<int>(fd.number));
  std::vector<Name> names;
  for (std::string word; in >> word;) {
    const std::size_t colon = word.rfind(':');
    const std::string name = word.substr(0, colon);
    if (name != "." && name != "..")
      names.push_back({directory + (directory.ends_with('/') ? "" : "/") + name, std::stoi(word.substr(colon + 1))});
  }
  return names;
}

constexpr int kDirectoryType = 4;  // DT_DIR
constexpr int kFileType = 8;       // DT_REG
constexpr int kLinkType = 10;      // DT_LNK

/// The bytes, where each run of one byte is written as the byte in hexadecimal and its length.
std::string runs(const std::string& bytes) {
  std::ostringstream out;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find_first_not_of(bytes[at], at), bytes.size());
    out << ' ' << std::hex << int{static_cast<unsigned char>(bytes[at])} << '*' << std::dec << end - at;
    at = end;
  }
  return out.str();
}

}  // namespace

std::string dump(Frontend& frontend, const std::string& directory, const std::string& root) {
  std::string text;
  for (const Name& name : names_in(frontend, directory)) {
    text += name.path + " " + describe(frontend.stat(name.path, false));
    if (name.type == kLinkType) {
      const std::string target = frontend.readlink(name.path).text;
      text += " -> " + (target.starts_with(root) ? "ROOT" + target.substr(root.size()) : target);
    }
    if (name.type == kFileType) {
      const Outcome fd = frontend.open(name.path, O_RDONLY, 0);
      text += " =" + runs(frontend.pread(static_cast<int>(fd.number), 1U << 20U, 0).text);
      frontend.close(static_cast<int>(fd.number));
    }
    text += "\n";
    if (name.type == kDirectoryType) text += dump(frontend, name.path, root);
  }
  return text;
}

void wipe(Frontend& frontend, const std::string& directory) {
  for (const Name& name : names_in(frontend, directory)) {
    if (name.type == kDirectoryType) {
      wipe(frontend, name.path);
      EXPECT_EQ(frontend.rmdir(name.path).number, 0) << name.path;
    } else {
      EXPECT_EQ(frontend.unlink(name.path).number, 0) << name.path;
    }
  }
}

}  // namespace spate::posix_test
