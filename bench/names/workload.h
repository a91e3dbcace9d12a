// SPDX-License-Identifier: Apache-2.0
// The work of the client in the bench of names.
#pragma once

#include <string>

#include "client/client.h"

namespace spate::bench {

job::Task<Result<void>> make_folder(client::Client& client, std::string folder);

// Each function does one operation on file number `n` of a folder.
/// Creates a file without opening it: one request.
job::Task<Result<void>> create_file(client::Client& client, std::string folder, std::uint64_t n);
/// As open(O_CREAT) and close(): two requests. Uses other names than create_file().
job::Task<Result<void>> create_open_close(client::Client& client, std::string folder, std::uint64_t n);
job::Task<Result<void>> stat_file(client::Client& client, std::string folder, std::uint64_t n);
job::Task<Result<void>> unlink_file(client::Client& client, std::string folder, std::uint64_t n);

/// Several tasks make files at once, each in a folder of its own below `folder`, or all of them in `folder`.
struct Creation {
  std::string folder;
  std::size_t tasks = 8;
  std::uint64_t files = 0;
  bool one_folder = false;
};
job::Task<Result<void>> create_many(client::Client& client, Creation creation);

/// Reads all entries with their attributes. Yields their number.
job::Task<Result<std::uint64_t>> list_folder(client::Client& client, std::string folder);

}  // namespace spate::bench
