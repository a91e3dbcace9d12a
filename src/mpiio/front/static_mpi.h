// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether the program of this process contains MPI's functions for files, so that no library can take their place.
/// False also if its symbols were stripped, because nobody can tell then.
bool program_contains_mpi();
