// SPDX-License-Identifier: Apache-2.0
#include "posix/directory_reader.h"

#include <utility>

namespace spate::posix {
namespace {

// Positions of the two entries that the servers do not store; their cookies are hashes of 63 bits, far apart from
// these.
constexpr std::uint64_t kAfterDot = 1;
constexpr std::uint64_t kAfterDotDot = 2;

}  // namespace

std::optional<DirectoryItem> DirectoryReader::dot_entry(std::uint64_t position) const {
  if (position > kAfterDot) return std::nullopt;
  DirectoryItem item;
  item.type = FileType::kDirectory;
  item.name = position == 0 ? "." : "..";
  item.handle = position == 0 ? directory_ : page_.parent;
  item.next = position + 1;
  return item;
}

job::Task<Result<void>> DirectoryReader::load_page(std::uint64_t position, bool with_attributes) {
  wire::ReaddirRequest request;
  request.handle = directory_;
  request.cookie = position <= kAfterDotDot ? 0 : position;
  request.attributes = with_attributes;
  SPATE_CO_TRY(auto page, co_await client_.readdir(std::move(request)));
  page_ = std::move(page);
  page_index_ = 0;
  page_position_ = position;
  page_loaded_ = true;
  page_with_attributes_ = with_attributes;
  co_return Result<void>();
}

job::Task<Result<std::optional<DirectoryItem>>> DirectoryReader::next(std::uint64_t position, bool with_attributes) {
  // After a rewind, or a seek elsewhere, the caller sees the present entries.
  const bool read_up = page_loaded_ && page_index_ == page_.entries.size() && !page_.end;
  if (position == 0 || !page_loaded_ || position != page_position_ || read_up ||
      (with_attributes && !page_with_attributes_)) {
    SPATE_CO_TRY(std::ignore, co_await load_page(position, with_attributes));
  }
  if (auto dot = dot_entry(position)) {
    page_position_ = dot->next;
    co_return dot;
  }
  if (page_index_ == page_.entries.size()) co_return std::optional<DirectoryItem>();
  wire::DirectoryEntry& entry = page_.entries[page_index_++];
  DirectoryItem item;
  item.name = std::move(entry.name);
  item.handle = entry.handle;
  item.type = entry.type;
  item.next = entry.cookie;
  if (with_attributes) item.attributes = entry.attributes;
  page_position_ = item.next;
  co_return std::optional<DirectoryItem>(std::move(item));
}

}  // namespace spate::posix
