// SPDX-License-Identifier: Apache-2.0
// Commits 0, 1, 2 ... to the RocksDB store in argv[1] until it is killed, and prints each number after its commit is
// acknowledged. If argv[2] is "once", it only opens the store and prints the error's message.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "trove/rocksdb/rocksdb_keyval.h"

namespace {

using namespace spate;
using namespace spate::trove;

Errc commit(Keyval& store, int number) {
  const auto transaction = store.begin();
  const std::string text = std::to_string(number);
  transaction->put(as_bytes("number" + text),
                   as_bytes(text + std::string(static_cast<std::size_t>(number % 700), 'x')));
  transaction->put(as_bytes("last"), as_bytes(text));
  KeyvalCompletion done;
  const Durability durability = number % 50 == 0 ? Durability::kMachine : Durability::kProcess;
  if (transaction->post_commit(durability, nullptr, done)) return done.status;
  std::array<KeyvalCompletion, 1> out;
  while (store.test(out) == 0) {
    pollfd wanted{store.wait_descriptor(), POLLIN, 0};
    if (store.prepare_to_wait()) ::poll(&wanted, 1, -1);
  }
  return out[0].status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  RocksdbOptions options;
  options.folder = argv[1];
  options.write_buffer_bytes = std::size_t{256} << 10;  // small, so that tables are written and compacted, too
  auto opened = open_rocksdb(options);
  if (!opened) {
    std::puts(opened.error().message().c_str());
    return 1;
  }
  if (argc > 2) return 0;
  for (int number = 0;; ++number) {
    if (commit(**opened, number) != Errc::kOk) return 1;
    const std::string line = std::to_string(number) + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return 1;
  }
}
