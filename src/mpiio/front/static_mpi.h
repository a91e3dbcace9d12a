// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whether the program of this process has MPI's functions for files in itself, so that no library can stand before
/// them. False also when its symbols were stripped: then nobody can tell.
bool program_contains_mpi();
