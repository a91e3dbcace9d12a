// SPDX-License-Identifier: Apache-2.0
// Operations: a client's operations on a running file system, and the processor time of client and servers for them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "assembly/client_process.h"

namespace spate::bench {

/// A client of the file system of `config_file`, whose servers are `servers`. It makes a folder and a file of 1 MiB.
class Operations {
 public:
  static Result<std::unique_ptr<Operations>> open(const std::string& config_file, std::vector<pid_t> servers);

  /// Looks up the file's attributes by its path, `count` times.
  Result<void> stat(std::uint64_t count);
  /// Reads the first `bytes` (at most 1 MiB) of the file, `count` times.
  Result<void> read(std::uint64_t count, std::size_t bytes);
  /// Writes these bytes, `count` times.
  Result<void> write(std::uint64_t count, std::size_t bytes);
  /// Creates a file and removes it again, `count` times.
  Result<void> create(std::uint64_t count);

  /// Processor seconds that this process and the servers have used so far.
  Result<double> cpu_seconds() const;

 private:
  Operations(std::unique_ptr<assembly::ClientProcess> process, std::vector<pid_t> servers)
      : process_(std::move(process)), servers_(std::move(servers)) {}
  template <typename Make>
  Result<void> repeat(std::uint64_t count, Make make);

  std::unique_ptr<assembly::ClientProcess> process_;
  std::vector<pid_t> servers_;
  std::unique_ptr<client::File> file_;
};

}  // namespace spate::bench
