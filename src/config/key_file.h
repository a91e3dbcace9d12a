// SPDX-License-Identifier: Apache-2.0
// Key files: 32 random bytes as 64 hex digits, readable by their owner only.
#pragma once

#include <string>
#include <string_view>

#include "base/checksum.h"
#include "base/random.h"
#include "base/result.h"

namespace spate::config {

/// kPermissionDenied when others than the owner may read or write the file (the error says `chmod 600 FILE`) or when it
/// belongs to another user than this process's, who could change it; kInvalidArgument when it is no key.
Result<spate::Key> read_key_file(const std::string& path);

/// Makes `path` (0600) with a new key, on disk when this returns. kExists when there is a file already: it is left
/// alone.
Result<spate::Key> create_key_file(const std::string& path, Random& random);

/// A key file's text, and the key in such a text; `path` is for the error.
std::string key_file_text(const spate::Key& key);
Result<spate::Key> parse_key_file(std::string_view text, const std::string& path);

}  // namespace spate::config
