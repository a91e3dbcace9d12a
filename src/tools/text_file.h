// SPDX-License-Identifier: Apache-2.0
// Small files that hold text: the configuration, and what is known of file systems. For programs with one thread.
#pragma once

#include <string>

#include "base/result.h"

namespace spate::tools {

/// Creates the file with mode 0600 and syncs it. If one exists, removes it before. On failure, part of the text may be
/// there.
Result<void> write_file(const std::string& path, const std::string& text);

/// Replaces the file atomically, or creates it, and syncs it: readers find the old text or the new text, never a part
/// of it, and never no file. A file that exists keeps its mode; a new one has mode 0600. If the path is a link,
/// replaces the link itself. On failure the old text stays, and no other file is left. Callers keep two writers of one
/// file apart.
Result<void> replace_file(const std::string& path, const std::string& text);

}  // namespace spate::tools
