// SPDX-License-Identifier: Apache-2.0
// Key files: each line has 32 random bytes as 64 hex digits; only the owner may read the file. The first line is the
// key in use; servers accept the others, too (docs/operating.md, "New keys").
#pragma once

#include <string>
#include <string_view>

#include "base/checksum.h"
#include "base/random.h"
#include "base/result.h"
#include "model/capability.h"
#include "model/user_key.h"

namespace spate::config {

/// kPermissionDenied if others than the owner may read or write the file (the error says `chmod 600 FILE`), or if it
/// belongs to another user than this process's, who could change it. kInvalidArgument if it does not hold exactly 1 to
/// kMaxKeys keys.
Result<KeyRing> read_keys(const std::string& path);
inline constexpr std::size_t kMaxKeys = 8;
/// The key in use. A file that holds a user's key is refused.
Result<spate::Key> read_key_file(const std::string& path);

/// The key that a client proves: the one in use, or a user's. Checks the file as read_keys() does.
Result<ClientKey> read_client_key(const std::string& path);

/// Makes `path` (0600) with a new key; the file is durable when this returns. kExists: there is a file already, which
/// stays unchanged.
Result<spate::Key> create_key_file(const std::string& path, Random& random);

/// Makes `path` (0600) with the text of a user's key; durable. kExists as above.
Result<void> create_user_key_file(const std::string& path, const ClientKey& key, const std::string& directory = {});

/// key_file_text() makes a key file's text; the other function parses one. `path` is for the error.
std::string key_file_text(const spate::Key& key);
Result<KeyRing> parse_key_file(std::string_view text, const std::string& path);
/// The same for a user's key: a line for people, and a line "spate-user-key RESTRICTIONS ISSUER SECRET" in hex.
/// `directory`: the path of the directory that the key is confined to, for people; empty: none.
std::string user_key_text(const ClientKey& key, const std::string& directory = {});
Result<ClientKey> parse_client_key(std::string_view text, const std::string& path);

}  // namespace spate::config
