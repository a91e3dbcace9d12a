// SPDX-License-Identifier: Apache-2.0
// The experiments of the PVFS paper: many clients, each with its own part of one file, or with its cells of BTIO's
// array. Real processes and the simulation both use this. Source: PVFS, sec. 4.2 and 5.2.
#pragma once

#include <vector>

#include "client/client.h"
#include "model/extent.h"

namespace spate::bench {

inline constexpr std::uint64_t kStripBytes = 64 * 1024;

struct Part {
  bool write = false;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t request_bytes = kStripBytes;  // one strip on each server
  std::size_t in_flight = 2;
};
job::Task<Result<void>> move_part(client::File& file, Part part);

/// The cells of one BTIO client in a cube of `side`^3 cells of 40 bytes, as in the benchmark's version "full MPI-IO":
/// one block in each of sqrt(clients) slabs. One piece for each row of cells, in ascending order.
std::vector<Extent> btio_pieces(std::uint64_t side, std::uint64_t clients, std::uint64_t client);
job::Task<Result<void>> move_pieces(client::File& file, std::span<const Extent> pieces, bool write);

/// Opens the shared file, which is striped over all servers. The first client creates it.
job::Task<Result<std::unique_ptr<client::File>>> open_shared(client::Client& client, std::string path);

}  // namespace spate::bench
