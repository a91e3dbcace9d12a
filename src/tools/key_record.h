// SPDX-License-Identifier: Apache-2.0
// The record of the keys of users that were issued, beside the client key (docs/operating.md, "A key for a user").
#pragma once

#include <string>
#include <vector>

#include "model/user_key.h"

namespace spate::tools {

/// The key's restrictions as words of a line: "uid=1000 gid=1000 ...". `path`: of its directory, if it has one.
std::string in_words(const UserKey& key, const std::string& path);
/// The path that in_words() has written as `word`.
std::string path_from_word(std::string word);

/// Adds a line to the record. Without it nobody could tell later which key is whose, so a key that cannot be recorded
/// is not given out.
Result<void> record_key(const std::string& client_key_file, const UserKey& key, const std::string& about);

/// A line of the record.
struct IssuedKey {
  KeyId id;
  std::string about;  // as in_words() has written it
  WallTime until;     // 0: never
};

/// The keys of the record, the oldest first. Lines that are not understood are left out.
std::vector<IssuedKey> recorded_keys(const std::string& client_key_file);
/// When each of these keys expires. 0: never, or the record does not have the key.
std::vector<WallTime> recorded_ends(const std::string& client_key_file, const std::vector<KeyId>& ids);

}  // namespace spate::tools
