// SPDX-License-Identifier: Apache-2.0
// Starting programs that lie in Spate, and the end of the process.
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <vector>

#include "preload/calls.h"
#include "preload/lifetime.h"

namespace spate::preload {
namespace {

constexpr std::size_t kHead = 256;  // the kernel looks at as much for "#!"

/// What execve is given instead; kept while the kernel reads it.
struct Start {
  std::string path;
  std::string interpreter;
  std::string argument;
  std::vector<const char*> words;
};

/// "#!interpreter argument": false when it is none.
bool parse_script(std::string_view head, Start& start) {
  if (!head.starts_with("#!")) return false;
  head = head.substr(2, head.find('\n') - 2);
  const auto trim = [](std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    const std::size_t last = text.find_last_not_of(" \t\r");
    return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
  };
  head = trim(head);
  const std::size_t space = head.find_first_of(" \t");
  start.interpreter = head.substr(0, space);
  start.argument = space == std::string_view::npos ? "" : trim(head.substr(space));
  return !start.interpreter.empty();
}

/// The program's bytes in a memfd, which the kernel can run. Its number, or -errno.
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

Reply start_script(Frame& f, Start& start, int first_word) {
  const char* const* const given = memory<const char* const>(f, first_word);
  start.words = {start.interpreter.c_str()};
  if (!start.argument.empty()) start.words.push_back(start.argument.c_str());
  start.words.push_back(start.path.c_str());
  for (const char* const* word = given != nullptr && *given != nullptr ? given + 1 : given; word != nullptr && *word != nullptr; ++word) {
    start.words.push_back(*word);
  }
  start.words.push_back(nullptr);
  f.word[first_word] = reinterpret_cast<long>(start.words.data());
  redirect(f, first_word == 1 ? kPlain : kAtPath, start.interpreter);
  return kToKernel;
}

Reply start_program(Frame& f, const Place& place, int first_word) {
  thread_local Start start;
  start = Start();
  start.path = place.shown;
  auto may = place.mount->run([&](posix::FileSystem& files) { return files.access(place.where, X_OK); });
  if (!may) return refuse(may.error());
  posix::OpenRequest request;
  request.where = place.where;
  request.flags = O_RDONLY;
  auto opened = place.mount->run([&](posix::FileSystem& files) { return files.open(request); });
  if (!opened) return refuse(opened.error());
  posix::OpenFile& file = **opened;
  std::array<std::byte, kHead> head{};
  const MutableByteView room(head);
  auto got = place.mount->run([&](posix::FileSystem&) { return file.pread(0, std::span(&room, 1)); });
  Reply reply = minus(EACCES);
  if (got && parse_script({reinterpret_cast<const char*>(head.data()), static_cast<std::size_t>(*got)}, start)) {
    reply = start_script(f, start, first_word);
  } else if (got) {
    const Reply memfd = copy_program(*place.mount, file, place.shown);
    reply = memfd;
    if (!failed(*memfd)) {
      redirect(f, first_word == 1 ? kPlain : kAtPath, "/proc/self/fd/" + std::to_string(*memfd));
      reply = kToKernel;
    }
  }
  std::ignore = place.mount->run([&](posix::FileSystem&) { return file.close(); });
  return reply;
}

/// A path in Spate is given to the kernel as one that it can run.
Reply exec(Frame& f, PathArguments path, int first_word) {
  auto place = locate(f, path, true);
  if (!place) return refuse(place.error());
  if (place->mount != nullptr) {
    const Reply prepared = start_program(f, *place, first_word);
    if (prepared) return prepared;
  }
  // The connections end with the program; what it has open, the next one opens anew.
  const int directory = path.directory < 0 ? AT_FDCWD : fd(f, path.directory);
  const bool starts = raw(SYS_faccessat, directory, memory<const char>(f, path.path), X_OK) == 0;
  if (starts && !front().in_vfork_child() && any_client_started() && may_end_before_exec()) end_everything();
  return kToKernel;
}

Reply execve(Frame& f) { return exec(f, kPlain, 1); }
Reply execveat(Frame& f) { return fd(f, 4) == 0 ? exec(f, kAtPath, 2) : Reply(minus(EACCES)); }

Reply exit_group(Frame&) {
  if (!front().in_vfork_child()) end_everything();
  return kToKernel;
}

/// What is about the kernel's own file systems.
Reply not_here(Frame&) { return minus(EOPNOTSUPP); }

}  // namespace

Handler process_handler(long number) {
  switch (number) {
    case SYS_execve: return execve;
    case SYS_execveat: return execveat;
    case SYS_exit_group: return exit_group;
    case SYS_name_to_handle_at:
    case SYS_inotify_add_watch: return not_here;
    default: return nullptr;
  }
}

}  // namespace spate::preload
