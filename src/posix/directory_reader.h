// SPDX-License-Identifier: Apache-2.0
// DirectoryReader: the entries of a directory, one after another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/client.h"

namespace spate::posix {

/// One entry of a directory, also "." or "..".
struct DirectoryItem {
  std::string name;
  Handle handle;
  FileType type = FileType::kRegular;
  std::uint64_t next = 0;                // for seek(): the position after this entry
  std::optional<Attributes> attributes;  // if requested; never for "." and ".."
};

/// Keeps the page of entries that the server sent last. The caller keeps the position: 0 at first, then
/// DirectoryItem::next of the last entry. It may be one that another reader of the directory has reached. One call at a
/// time. The client outlives it.
class DirectoryReader {
 public:
  DirectoryReader(client::Client& client, Handle directory) : client_(client), directory_(directory) {}
  DirectoryReader(const DirectoryReader&) = delete;
  DirectoryReader& operator=(const DirectoryReader&) = delete;

  /// The entry at `position`; nothing: the directory ends there.
  job::Task<Result<std::optional<DirectoryItem>>> next(std::uint64_t position, bool with_attributes);

 private:
  job::Task<Result<void>> load_page(std::uint64_t position, bool with_attributes);
  std::optional<DirectoryItem> dot_entry(std::uint64_t position) const;

  client::Client& client_;
  const Handle directory_;
  wire::ReaddirReply page_;
  std::size_t page_index_ = 0;
  std::uint64_t page_position_ = 0;  // where reading continues; a call for another position reads a new page
  bool page_loaded_ = false;
  bool page_with_attributes_ = false;
};

}  // namespace spate::posix
