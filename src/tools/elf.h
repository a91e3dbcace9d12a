// SPDX-License-Identifier: Apache-2.0
// Reads from a program's file how it is linked, what it imports, and whether it makes system calls itself. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::tools {

struct Binary {
  bool dynamic = false;                // a program with a dynamic linker, or a shared library
  bool go = false;                     // it has the Go runtime, which makes its system calls itself
  std::vector<std::string> needed;     // libraries by name
  std::vector<std::string> run_paths;  // folders in which they are searched first; may contain $ORIGIN
  std::vector<std::string> imports;    // functions and data of other objects
  std::size_t own_calls = 0;  // instructions that look like a system call, with its number, that may concern files
};

/// Reads an ELF file of x86-64. Every offset, size and count is checked; strings are at most 4096 bytes, lists at most
/// 1,000,000 entries. kInvalidArgument: it is not such a file; the message says what is wrong.
Result<Binary> read_binary(ByteView file);

}  // namespace spate::tools
