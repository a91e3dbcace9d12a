// SPDX-License-Identifier: Apache-2.0
// Starts programs that lie in Spate, and handles the end of the process.
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "preload/calls.h"
#include "preload/helper.h"
#include "preload/lifetime.h"

namespace spate::preload {
namespace {

constexpr std::size_t kHead = 256;  // as many bytes as the kernel reads to find "#!"
constexpr int kMostScripts = 5;     // the kernel's limit; the interpreter of a script may itself be a script
constexpr std::string_view kElf = "\177ELF";

/// The first line of a script.
struct Script {
  std::string interpreter;
  std::string argument;
};

/// Parses "#!interpreter argument". False: it is not a script.
bool parse_script(std::string_view head, Script& script) {
  if (!head.starts_with("#!")) return false;
  head = head.substr(2, head.find('\n') - 2);
  const auto trim = [](std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    const std::size_t last = text.find_last_not_of(" \t\r");
    return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
  };
  head = trim(head);
  const std::size_t space = head.find_first_of(" \t");
  script.interpreter = head.substr(0, space);
  script.argument = space == std::string_view::npos ? "" : trim(head.substr(space));
  return !script.interpreter.empty();
}

/// Copies the program into a memfd, from which the kernel can run it. Returns the memfd's number, or -errno.
Reply copy_program(Mount& mount, posix::OpenFile& file, const std::string& shown) {
  const long memfd = raw(SYS_memfd_create, shown.substr(shown.rfind('/') + 1).substr(0, 200).c_str(), MFD_CLOEXEC);
  if (failed(memfd)) return memfd;
  Bytes step(1U << 20U);
  for (std::uint64_t offset = 0;;) {
    const MutableByteView room(step);
    auto got = mount.run([&](posix::FileSystem&) { return file.pread(offset, std::span(&room, 1)); });
    const long put = got ? raw(SYS_write, memfd, step.data(), *got) : *refuse(got.error());
    if (failed(put)) {
      raw(SYS_close, memfd);
      return put;
    }
    if (*got == 0) return memfd;
    offset += *got;
  }
}

/// Copies the list of arguments to memory that the kernel can read. If the call fails, this memory is lost.
const char** keep_words(const std::vector<const char*>& words) {
  const std::size_t size = words.size() * sizeof(const char*);
  char* memory = helper_memory(size);
  if (memory == nullptr) memory = static_cast<char*>(std::malloc(size));
  if (memory != nullptr) std::memcpy(memory, words.data(), size);
  return reinterpret_cast<const char**>(memory);
}

Reply start_script(Frame& f, const Script& script, const std::string& path, int first_word) {
  std::vector<const char*> words{keep_text(script.interpreter)};
  if (!script.argument.empty()) words.push_back(keep_text(script.argument));
  words.push_back(keep_text(path));
  const char* const* const given = memory<const char* const>(f, first_word);
  for (const char* const* word = given != nullptr && *given != nullptr ? given + 1 : given;
       word != nullptr && *word != nullptr; ++word) {
    words.push_back(*word);
  }
  words.push_back(nullptr);
  const char** const kept = keep_words(words);
  if (kept == nullptr) return minus(ENOMEM);
  f.word[first_word] = reinterpret_cast<long>(kept);
  f.word[first_word == 1 ? 0 : 1] = reinterpret_cast<long>(words.front());
  if (first_word == 2) f.word[0] = AT_FDCWD;
  return kToKernel;
}

/// The meaning of the path in the frame if start_program() returns no reply.
enum class Names { kProgram, kInterpreter };

Reply start_opened(Frame& f, const ResolvedPath& place, posix::OpenFile& file, int first_word, Names& names) {
  std::array<std::byte, kHead> head{};
  const MutableByteView room(head);
  auto got = place.mount->run([&](posix::FileSystem&) { return file.pread(0, std::span(&room, 1)); });
  if (!got) return refuse(got.error());
  const std::string_view text(reinterpret_cast<const char*>(head.data()), static_cast<std::size_t>(*got));
  Script script;
  if (parse_script(text, script)) {
    names = Names::kInterpreter;
    return start_script(f, script, place.shown, first_word);
  }
  // If the kernel could not start the program, nobody would close the copy. That happens when shells try scripts
  // without "#!".
  if (!text.starts_with(kElf)) return minus(ENOEXEC);
  const Reply memfd = copy_program(*place.mount, file, place.shown);
  if (failed(*memfd)) return memfd;
  redirect(f, first_word == 1 ? kPlain : kAtPath, "/proc/self/fd/" + std::to_string(*memfd));
  return kToKernel;
}

Result<Reply> start_program(Frame& f, const ResolvedPath& place, int first_word, Names& names) {
  SPATE_TRY(std::ignore, place.mount->run([&](posix::FileSystem& files) { return files.access(place.where, X_OK); }));
  posix::OpenRequest request;
  request.where = place.where;
  request.flags = O_RDONLY | (place.where.follow ? 0 : O_NOFOLLOW);
  SPATE_TRY(const auto opened, place.mount->run([&](posix::FileSystem& files) { return files.open(request); }));
  posix::OpenFile& file = *opened;
  const Reply reply = start_opened(f, place, file, first_word, names);
  std::ignore = place.mount->run([&](posix::FileSystem&) { return file.close(); });
  return reply;
}

/// The arguments of execve or execveat.
struct ExecParams {
  PathArguments path;
  int first_word;  // the index of the list of arguments
  int flags;       // AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW
};

/// Replaces a path in Spate by one that the kernel can run. A script's interpreter may lie in Spate, too. Either path
/// may be a link that leads out.
Reply prepare(Frame& f, const ExecParams& params) {
  Names names = Names::kInterpreter;
  bool follow = (params.flags & AT_SYMLINK_NOFOLLOW) == 0;
  for (int scripts = 0; names == Names::kInterpreter; ++scripts) {
    auto place = locate(f, params.path, follow, (params.flags & AT_EMPTY_PATH) != 0);
    if (!place) return refuse(place.error());
    if (place->mount == nullptr) return kToKernel;
    if (scripts > kMostScripts) return minus(ELOOP);
    names = Names::kProgram;
    auto replaced = start_program(f, *place, params.first_word, names);
    if (!replaced && leads_out(replaced.error())) {
      redirect(f, params.path, replaced.error().context());
      return kToKernel;
    }
    if (!replaced) return refuse(replaced.error());
    if (*replaced) return *replaced;
    follow = true;  // the frame has another path now
    if (params.first_word == 2) f.word[4] = 0;
  }
  return kToKernel;
}

/// Whether the kernel will probably be able to start the program.
bool can_start(const Frame& f, const ExecParams& params) {
  const int directory = params.path.directory < 0 ? AT_FDCWD : fd(f, params.path.directory);
  const char* const path = memory<const char>(f, params.path.path);
  if (path != nullptr && *path != '\0') return raw(SYS_faccessat, directory, path, X_OK) == 0;
  const std::string link = "/proc/self/fd/" + std::to_string(directory);
  return raw(SYS_faccessat, AT_FDCWD, link.c_str(), X_OK) == 0;
}

Reply exec(Frame& f, const ExecParams& params) {
  if (const Reply refused = prepare(f, params)) return refused;
  // The connections end with the program. The next program opens its inherited files again. Until then the broker
  // keeps them open.
  if (!front().in_vfork_child() && any_client_started() && can_start(f, params)) end_before_exec();
  return kToKernel;
}

Reply execve(Frame& f) { return exec(f, {kPlain, 1, 0}); }
Reply execveat(Frame& f) {
  constexpr int kKnown = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
  return (fd(f, 4) & ~kKnown) != 0 ? Reply(minus(EINVAL)) : exec(f, {kAtPath, 2, fd(f, 4)});
}

Reply exit_group(Frame&) {
  if (!front().in_vfork_child()) end_everything();
  return kToKernel;
}

/// Refuses, for objects of Spate, calls that only the kernel's own file systems support.
Reply not_here(Frame& f, PathArguments path, bool follow, bool empty) {
  const char* const text = memory<const char>(f, path.path);
  if (empty && (text == nullptr || *text == '\0'))
    return description_of(fd(f, path.directory)) == nullptr ? kToKernel : Reply(minus(EOPNOTSUPP));
  return on_path(
      f, path, follow, [](posix::FileSystem& files, posix::PathAt where) { return files.stat(std::move(where)); },
      [](const auto& found) { return found ? Reply(minus(EOPNOTSUPP)) : refuse(found.error()); });
}

Reply inotify_add_watch(Frame& f) {
  return not_here(f, {-1, 1}, (static_cast<unsigned>(f.word[2]) & IN_DONT_FOLLOW) == 0, false);
}

Reply name_to_handle_at(Frame& f) {
  return not_here(f, kAtPath, (fd(f, 4) & AT_SYMLINK_FOLLOW) != 0, (fd(f, 4) & AT_EMPTY_PATH) != 0);
}

}  // namespace

Handler process_handler(long number) {
  switch (number) {
    case SYS_execve: return execve;
    case SYS_execveat: return execveat;
    case SYS_exit_group: return exit_group;
    case SYS_name_to_handle_at: return name_to_handle_at;
    case SYS_inotify_add_watch: return inotify_add_watch;
    default: return nullptr;
  }
}

}  // namespace spate::preload
