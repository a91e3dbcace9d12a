// SPDX-License-Identifier: Apache-2.0
// The experiment of Figures 5 and 6 of the PVFS paper: many clients, each with its own part of one file. Used by real
// processes and by the simulation alike. Source: PVFS, sec. 4.2.
#pragma once

#include "client/client.h"

namespace spate::bench {

inline constexpr std::uint64_t kStripBytes = 64 * 1024;

struct Part {
  bool write = false;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t request_bytes = kStripBytes;  // one strip of every server
  std::size_t in_flight = 2;
};
job::Task<Result<void>> move_part(client::File& file, Part part);

/// The shared file, striped over all servers; made by the first to come.
job::Task<Result<std::unique_ptr<client::File>>> open_shared(client::Client& client, std::string path);

}  // namespace spate::bench
