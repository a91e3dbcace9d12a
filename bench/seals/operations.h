// SPDX-License-Identifier: Apache-2.0
// Operations: operations of a client of a running file system, and the processor time that they cost all.
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

  /// `count` times `stat` of the file, by its path.
  Result<void> stat(std::uint64_t count);
  /// `count` times a read of the file's first `bytes`, at most 1 MiB.
  Result<void> read(std::uint64_t count, std::size_t bytes);
  /// `count` times a write of them.
  Result<void> write(std::uint64_t count, std::size_t bytes);
  /// `count` times a file that is made and removed again.
  Result<void> create(std::uint64_t count);

  /// Seconds that this process and the servers have taken so far.
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
