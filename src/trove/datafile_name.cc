// SPDX-License-Identifier: Apache-2.0
#include "trove/datafile_name.h"

#include <charconv>
#include <cstdio>

#include "base/check.h"
#include "base/checksum.h"

namespace spate::trove {
namespace {

constexpr std::size_t kHandleDigits = 16;
constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

unsigned hash_folder(const DatafileId& id) {
  std::array<std::byte, 12> raw;
  for (std::size_t i = 0; i < 8; ++i) raw[i] = static_cast<std::byte>(id.handle.value >> (8 * i));
  for (std::size_t i = 0; i < 4; ++i) raw[8 + i] = static_cast<std::byte>(id.slot >> (8 * i));
  return static_cast<unsigned>(hash64(raw) % kHashFolders);
}

std::string hash_folder_name(unsigned folder) { return {kHexDigits[folder / 16 % 16], kHexDigits[folder % 16]}; }

DatafilePath::DatafilePath(const DatafileId& id) {
  const int length = std::snprintf(text_.data(), text_.size(), "%02x/%016llx.%u", hash_folder(id),
                                   static_cast<unsigned long long>(id.handle.value), id.slot);
  SPATE_CHECK(length > 0 && static_cast<std::size_t>(length) < text_.size());
}

std::optional<DatafileId> parse_datafile_name(std::string_view name) {
  if (name.size() < kHandleDigits + 2 || name[kHandleDigits] != '.') return std::nullopt;
  const std::string_view digits = name.substr(0, kHandleDigits);
  if (digits.find_first_not_of(kHexDigits) != std::string_view::npos) return std::nullopt;
  DatafileId id;
  std::from_chars(digits.data(), digits.data() + digits.size(), id.handle.value, 16);
  const std::string_view slot = name.substr(kHandleDigits + 1);
  if (slot.size() > 1 && slot[0] == '0') return std::nullopt;
  const auto [end, error] = std::from_chars(slot.data(), slot.data() + slot.size(), id.slot, 10);
  if (error != std::errc() || end != slot.data() + slot.size() || !id.handle) return std::nullopt;
  return id;
}

}  // namespace spate::trove
