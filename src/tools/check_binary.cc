// SPDX-License-Identifier: Apache-2.0
// `spate check-binary`.
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/printable.h"
#include "tools/commands.h"
#include "tools/elf.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargest = 1ULL << 30U;
constexpr std::size_t kMostLibraries = 1000;

/// Functions that a program may call but that the preload library does not support on Spate's files, and the effect of
/// each.
const std::map<std::string, std::string, std::less<>>& uncovered() {
  static const std::map<std::string, std::string, std::less<>> all = {
      {"io_uring_queue_init", "io_uring: the kernel reads and writes past the library (EBADF)"},
      {"io_uring_queue_init_params", "io_uring: the kernel reads and writes past the library (EBADF)"},
      {"io_setup", "Linux AIO: the kernel reads and writes past the library (EBADF)"},
      {"fanotify_mark", "no notice of changes (the kernel finds no such path)"},
      {"open_by_handle_at", "file handles of the kernel (name_to_handle_at gives EOPNOTSUPP)"},
  };
  return all;
}

struct Finding {
  std::string object;
  std::string what;
};

class Checker {
 public:
  /// Looks at the program and at every library that it is linked with.
  Result<std::vector<Finding>> check(const std::string& program) {
    SPATE_TRY(const std::string path, find_program(program));
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if ((fs::status(real, error).permissions() & (fs::perms::set_uid | fs::perms::set_gid)) != fs::perms::none) {
      note(real, "setuid or setgid: the dynamic linker ignores LD_PRELOAD");
    }
    SPATE_TRY(const Bytes bytes, read_file(real));
    if (bytes.size() > 2 && bytes[0] == std::byte{'#'} && bytes[1] == std::byte{'!'}) return check_script(bytes);
    SPATE_TRY(const Binary binary, read(real, bytes));
    if (!binary.dynamic) {
      note(real, "linked statically: it never loads the library; use `spate mount` for it");
      return findings_;
    }
    look_at(real, binary);
    return findings_;
  }

 private:
  static Result<std::string> find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    const char* const list = std::getenv("PATH");
    std::string rest = list == nullptr ? "/usr/bin:/bin" : list;
    while (!rest.empty()) {
      const std::size_t colon = rest.find(':');
      const std::string path = rest.substr(0, colon) + "/" + name;
      if (::access(path.c_str(), X_OK) == 0) return path;
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
    return Error::told(Errc::kNotFound, "there is no program " + name + " in PATH");
  }

  static Result<Bytes> read_file(const fs::path& path) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path, error);
    if (error) return errno_error(error.value(), "open " + path.string());
    if (size > kLargest) return Error::told(Errc::kInvalidArgument, path.string() + " is larger than 1 GiB");
    std::ifstream file(path, std::ios::binary);
    Bytes bytes(size);
    if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size)))
      return errno_error(EACCES, "read " + path.string());
    return bytes;
  }

  static Result<Binary> read(const fs::path& path, const Bytes& bytes) {
    auto binary = read_binary(bytes);
    if (!binary) return Error(binary.code(), path.string() + ": " + binary.error().context());
    return binary;
  }

  Result<std::vector<Finding>> check_script(const Bytes& bytes) {
    std::string line(reinterpret_cast<const char*>(bytes.data()) + 2, std::min<std::size_t>(bytes.size() - 2, 4096));
    line = line.substr(0, line.find('\n'));
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || depth_++ > 4)
      return Error::told(Errc::kInvalidArgument, "a script without an interpreter");
    line = line.substr(begin);
    std::string interpreter = line.substr(0, line.find_first_of(" \t\r"));
    if (interpreter.ends_with("/env")) {  // the program that env starts counts
      const std::size_t word = line.find_first_not_of(" \t", interpreter.size());
      if (word != std::string::npos) interpreter = line.substr(word, line.find_first_of(" \t\r", word) - word);
    }
    return check(interpreter);
  }

  void note(const fs::path& object, std::string what) { findings_.push_back({object.string(), std::move(what)}); }

  void look_at(const fs::path& path, const Binary& binary) {
    const std::string name = path.filename().string();
    const bool c_library = name.starts_with("libc.so") || name.starts_with("ld-linux") || name.starts_with("libc-2");
    if (binary.go) note(path, "Go: its runtime makes system calls itself");
    if (binary.own_calls > 0 && !c_library && !binary.go)
      note(path,
           fmt::format("makes system calls itself ({} places): such calls fail for files of Spate", binary.own_calls));
    for (const std::string& import : binary.imports) {
      const auto row = uncovered().find(import);
      if (row != uncovered().end() && !c_library) note(path, import + ": " + row->second);
    }
    for (const std::string& library : binary.needed) look_at_library(path, binary, library);
  }

  void look_at_library(const fs::path& user, const Binary& binary, const std::string& library) {
    if (!seen_.insert(library).second || seen_.size() > kMostLibraries) return;
    const auto path = find_library(user, binary, library);
    if (!path) return note(user, "its library " + library + " is not found");
    auto bytes = read_file(*path);
    if (!bytes) return note(*path, bytes.error().message());
    auto read_one = read(*path, *bytes);
    if (!read_one) return note(*path, read_one.error().message());
    look_at(*path, *read_one);
  }

  static std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(':', begin), list.size());
      if (end > begin) parts.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    return parts;
  }

  static std::optional<fs::path> find_library(const fs::path& user, const Binary& binary, const std::string& library) {
    std::vector<std::string> folders;
    for (const std::string& list : binary.run_paths) {
      for (std::string folder : split(list)) {
        for (const std::string_view origin : {"${ORIGIN}", "$ORIGIN"}) {
          const std::size_t at = folder.find(origin);
          if (at != std::string::npos) folder.replace(at, origin.size(), user.parent_path().string());
        }
        folders.push_back(folder);
      }
    }
    if (const char* const list = std::getenv("LD_LIBRARY_PATH")) {
      for (std::string& folder : split(list)) folders.push_back(std::move(folder));
    }
    for (const char* folder : {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64",
                               "/usr/local/lib", "/lib", "/usr/lib"}) {
      folders.emplace_back(folder);
    }
    folders.push_back(user.parent_path().string());
    std::error_code error;
    if (library.find('/') != std::string::npos) return fs::path(library);
    for (const std::string& folder : folders) {
      if (fs::exists(fs::path(folder) / library, error)) return fs::canonical(fs::path(folder) / library, error);
    }
    return std::nullopt;
  }

  std::vector<Finding> findings_;
  std::set<std::string> seen_;
  int depth_ = 0;
};

int check_program(Context& context, const std::string& program) {
  auto findings = Checker().check(program);
  if (!findings) return context.fail(findings.error());
  if (context.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Finding& one : *findings) list.push_back({{"object", one.object}, {"what", one.what}});
    print(list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    for (const Finding& one : *findings) print(printable(one.object + ": " + one.what) + "\n");
    if (findings->empty() && !context.quiet)
      print(program + ": every call on files that it is linked with is covered\n");
  }
  return findings->empty() ? kExitOk : kExitFailed;
}

}  // namespace

Command make_check_binary() {
  auto program = std::make_shared<std::string>();
  Command command;
  command.name = "check-binary";
  command.group = "Unchanged programs";
  command.summary = "list the calls of a program that `spate run` does not cover";
  command.details =
      "Examines the program and the libraries that it is linked with, and says if it is static. Exit code 1: some\n"
      "calls are not covered. Libraries that it loads at run time (dlopen) are not examined.";
  command.positionals = {{"PROGRAM", "a program or script", program.get(), true}};
  command.run = [program](Context& context) { return check_program(context, *program); };
  return command;
}

}  // namespace spate::tools
