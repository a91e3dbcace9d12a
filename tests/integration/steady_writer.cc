// SPDX-License-Identifier: Apache-2.0
// steady_writer SPATE.TOML PATH LOCAL-FILE SEED
// Makes PATH and writes the local file into it from front to back, in pieces of 1 byte to 1 MiB. After each
// acknowledged piece it prints the offset reached; at the end "closed". It may be killed, or stopped for a while: it
// writes the last piece only after standard input has ended, so on a busy machine, too, it is found at work.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "assembly/client_process.h"
#include "base/random.h"
#include "base/unique_fd.h"

namespace spate {
namespace {

Result<Bytes> read_whole(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  const off_t size = fd ? ::lseek(fd.get(), 0, SEEK_END) : -1;
  if (size < 0) return errno_error(errno, path);
  Bytes all(static_cast<std::size_t>(size));
  if (::pread(fd.get(), all.data(), all.size(), 0) != size) return errno_error(errno, path);
  return all;
}

void wait_for_end_of_input() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

/// Writes the line by one write(2), so that nothing is left in a buffer when the process is killed.
void say(const std::string& line) {
  if (::write(STDOUT_FILENO, (line + "\n").c_str(), line.size() + 1) < 0) std::exit(1);
}

job::Task<Result<void>> write_steadily(client::Client& client, std::string path, const Bytes& data,
                                       SeededRandom& random) {
  client::NewObject object;
  object.attributes.mode = 0644;
  SPATE_CO_TRY(auto file, co_await client.create(client::path_from_root(path), wire::kOpenWrite, object));
  for (std::size_t at = 0; at < data.size();) {
    const std::uint64_t most = std::uint64_t{1} << (random.next() % 21);
    const std::size_t size = std::min<std::size_t>(1 + random.next() % most, data.size() - at);
    if (at + size == data.size()) wait_for_end_of_input();
    SPATE_CO_TRY(std::ignore, co_await file->write(at, ByteView(data).subspan(at, size)));
    at += size;
    say(std::to_string(at));
  }
  SPATE_CO_TRY(std::ignore, co_await file->close());
  say("closed");
  co_return Result<void>();
}

Result<void> run(char** argv) {
  assembly::ClientSettings settings;
  settings.config_file = argv[1];
  settings.program = "steady_writer";
  settings.credential = assembly::own_credential();
  SPATE_TRY(const Bytes data, read_whole(argv[3]));
  SPATE_TRY(const auto process, assembly::ClientProcess::open(settings));
  SeededRandom random(std::strtoull(argv[4], nullptr, 10));
  return process->run([&](client::Client& client) { return write_steadily(client, argv[2], data, random); });
}

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: steady_writer SPATE.TOML PATH LOCAL-FILE SEED\n");
    return 2;
  }
  const auto done = spate::run(argv);
  if (!done) std::fprintf(stderr, "steady_writer: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
