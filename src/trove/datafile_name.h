// SPDX-License-Identifier: Apache-2.0
// DatafilePath: the name of a datafile in its target's folder. Format: docs/disk-datafiles.md, "Names".
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "model/ids.h"

namespace spate::trove {

/// Number of hashed folders of a target; fixed by the format.
constexpr unsigned kHashFolders = 256;

/// The hashed folder of a datafile, 0..255. The function never changes, because the file's place on disk depends on it.
unsigned hash_folder(const DatafileId& id);

/// "00" .. "ff".
std::string hash_folder_name(unsigned folder);

/// "ab/0000000000000007.0", relative to the target's folder `d`; null-terminated, no allocation.
class DatafilePath {
 public:
  explicit DatafilePath(const DatafileId& id);
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 40> text_{};
};

/// The id that a file name ("0000000000000007.0") names; nothing unless it is exactly what DatafilePath would write.
std::optional<DatafileId> parse_datafile_name(std::string_view name);

/// The order of listing: by folder, then handle, then slot.
struct ListPosition {
  unsigned folder = 0;
  DatafileId id;
  friend auto operator<=>(const ListPosition&, const ListPosition&) = default;
};

}  // namespace spate::trove
