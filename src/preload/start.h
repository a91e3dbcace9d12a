// SPDX-License-Identifier: Apache-2.0
// The start of the front in a program.
#pragma once

namespace spate::preload {

/// Prints one line to standard error. It bypasses the C library's streams.
void complain(const char* text);

/// Marks a descriptor that this process has received from another one, if it belongs to a file of Spate.
void note_descriptor(int descriptor);

/// The path of the library's back half, which lies in the same folder as this library.
const char* back_library();

}  // namespace spate::preload
