// SPDX-License-Identifier: Apache-2.0
// What the front does when a program starts.
#pragma once

namespace spate::preload {

/// One line on standard error, past the C library's streams.
void complain(const char* text);

/// Marks a descriptor that this process has got from another one, if it is of a file of Spate.
void note_descriptor(int descriptor);

/// The path of the back, beside this library.
const char* back_library();

}  // namespace spate::preload
