// SPDX-License-Identifier: Apache-2.0
// Reads from a program's file how it is linked, what it imports, and whether it makes system calls itself. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::tools {

struct Binary {
  bool dynamic = false;                // has a dynamic linker (of a library: is one's object)
  bool go = false;                     // the Go runtime makes its system calls itself
  std::vector<std::string> needed;     // libraries, as they are named
  std::vector<std::string> run_paths;  // where they are looked for first; may contain $ORIGIN
  std::vector<std::string> imports;    // functions and data of other objects
  std::size_t own_calls = 0;  // instructions that look like a system call that may be about files, with its number
};

/// Reads an ELF file of x86-64. Every offset, size and count is checked; strings are at most 4096 bytes, lists at most
/// 1,000,000 entries. kInvalidArgument: no such file, with what is wrong.
Result<Binary> read_binary(ByteView file);

}  // namespace spate::tools
