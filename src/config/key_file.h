// SPDX-License-Identifier: Apache-2.0
// Key files: 32 random bytes as 64 hex digits a line, readable by their owner only. The first line is the key that is
// used; servers accept the others, too (docs/operating.md, "New keys").
#pragma once

#include <string>
#include <string_view>

#include "base/checksum.h"
#include "base/random.h"
#include "base/result.h"
#include "model/capability.h"

namespace spate::config {

/// kPermissionDenied when others than the owner may read or write the file (the error says `chmod 600 FILE`) or when it
/// belongs to another user than this process's, who could change it; kInvalidArgument when it holds anything but 1 to
/// kMaxKeys keys.
Result<KeyRing> read_keys(const std::string& path);
inline constexpr std::size_t kMaxKeys = 8;
/// The one that is used.
Result<spate::Key> read_key_file(const std::string& path);

/// Makes `path` (0600) with a new key, on disk when this returns. kExists when there is a file already: it is left
/// alone.
Result<spate::Key> create_key_file(const std::string& path, Random& random);

/// A key file's text, and the keys in such a text; `path` is for the error.
std::string key_file_text(const spate::Key& key);
Result<KeyRing> parse_key_file(std::string_view text, const std::string& path);

}  // namespace spate::config
