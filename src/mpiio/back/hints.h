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

/// Plain data: rank 0 broadcasts its bytes.
struct Hints {
  std::uint64_t striping_unit = 0;       // bytes; 0: the directory's value
  std::uint64_t striping_factor = 0;     // targets; 0: the directory's value
  std::uint64_t first_target = 0;        // start_iodevice: a target's number in `spate df`
  std::array<char, 256> distribution{};  // spate_distribution, ends with a zero; empty: the directory's value
  std::uint64_t cb_nodes = 0;            // aggregators; 0: not given
  std::uint32_t cb_per_node = 0;         // cb_config_list: the most aggregators on a node; 0: not given
  std::uint64_t cb_buffer_size = 4U << 20U;
  Choice cb_read = Choice::kAutomatic;
  Choice cb_write = Choice::kAutomatic;
  std::uint32_t file_perm = 0666;
};

/// Reads the hints of `info` into `hints`. Returns a sentence for each wrong value; the hint then keeps its value.
std::vector<std::string> read_hints(MPI_Info info, Hints& hints);
/// As read_hints(), after the file of hints that ROMIO_HINTS names (lines "key value"). `info` has precedence.
std::vector<std::string> read_all_hints(MPI_Info info, Hints& hints);
/// ROMIO's hints about data sieving. They are accepted and shown, but have no effect, because no access reads bytes
/// that it does not need.
std::map<std::string, std::string> echoed_hints(MPI_Info info);
/// A new info object for MPI_File_get_info.
MPI_Info make_info(const Hints& hints, const std::map<std::string, std::string>& echoed);

}  // namespace spate::mpiio
