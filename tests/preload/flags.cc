// SPDX-License-Identifier: Apache-2.0
// F_SETFL while other threads read and write through the same descriptor. No call may fail, and no data may be lost.
//   preload_flags FILE ROUNDS
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kSize = 16384;

/// Reads the beginning of the file again and again.
void read_on(int file, const std::atomic<bool>& stop, std::atomic<int>& failed) {
  std::string room(kSize, '\0');
  while (!stop && failed == 0) {
    errno = 0;
    const long got = ::pread(file, room.data(), room.size(), 0);
    if (got != static_cast<long>(kSize) || room.find_first_not_of('x') != std::string::npos)
      failed = errno != 0 ? errno : -1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int file = ::open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  const std::string data(kSize, 'x');
  if (::pwrite(file, data.data(), data.size(), 0) != static_cast<long>(kSize)) return 3;
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) readers.emplace_back([&] { read_on(file, stop, failed); });
  // The flag must have its effect on the very next call.
  int wrong = 0;
  for (int i = 0; i < std::atoi(argv[2]) && failed == 0 && wrong == 0; ++i) {
    const bool append = i % 2 == 0;
    if (::fcntl(file, F_SETFL, append ? O_APPEND : 0) != 0) wrong = 4;
    ::lseek(file, 0, SEEK_SET);
    if (::write(file, "xx", 2) != 2) wrong = 5;
    if (::lseek(file, 0, SEEK_CUR) != (append ? static_cast<long>(kSize) + i + 2 : 2)) wrong = 6;
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  if (failed != 0) std::printf("a read failed: %s\n", std::strerror(failed));
  if (wrong != 0) std::printf("the flag was not in force: %d\n", wrong);
  return failed != 0 ? 1 : wrong;
}
