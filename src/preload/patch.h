// SPDX-License-Identifier: Apache-2.0
// Turns the system calls of the loaded C library and dynamic linker into jumps to spate_preload_enter.
#pragma once

namespace spate::preload {

/// Call it once, before there is a second thread. Returns null, or the reason why it is impossible; then nothing has
/// been changed.
const char* patch_c_library();

}  // namespace spate::preload
