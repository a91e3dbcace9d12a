// SPDX-License-Identifier: Apache-2.0
// The hints of an MPI_Info that Spate knows (docs/mpi-io.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mpiio/back/mpi.h"

namespace spate::mpiio {

enum class Choice : std::int32_t { kAutomatic, kEnable, kDisable };

/// Plain data: rank 0's is broadcast as it lies in memory.
struct Hints {
  std::uint64_t striping_unit = 0;       // bytes; 0: as the directory says
  std::uint64_t striping_factor = 0;     // targets
  std::uint64_t first_target = 0;        // start_iodevice: a target's number in `spate df`
  std::array<char, 256> distribution{};  // spate_distribution, ends with a zero; empty: as the directory says
  std::uint64_t cb_nodes = 0;            // aggregators; 0: not said
  std::uint32_t cb_per_node = 0;         // cb_config_list: so many of them on a node at most; 0: not said
  std::uint64_t cb_buffer_size = 16U << 20U;
  Choice cb_read = Choice::kAutomatic;
  Choice cb_write = Choice::kAutomatic;
  std::uint32_t file_perm = 0666;
};

/// Takes over what `info` says. Returns a sentence for each wrong value; that hint is left as it was.
std::vector<std::string> read_hints(MPI_Info info, Hints& hints);
/// The same with the file of hints that ROMIO_HINTS names ("key value" lines) beneath `info`, which counts where both
/// say something.
std::vector<std::string> read_all_hints(MPI_Info info, Hints& hints);
/// ROMIO's hints about data sieving are taken and shown, and change nothing: no access here reads what it does not
/// want.
std::map<std::string, std::string> echoed_hints(MPI_Info info);
/// A new info object for MPI_File_get_info.
MPI_Info make_info(const Hints& hints, const std::map<std::string, std::string>& echoed);

}  // namespace spate::mpiio
