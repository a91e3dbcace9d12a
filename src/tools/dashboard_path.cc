// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard_path.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "dist/registry.h"
#include "tools/groups.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

struct Looked {
  wire::ObjectReply object;
  wire::ReaddirReply entries;  // of a directory
};

job::Task<Result<Looked>> look_at_object(client::Client& client, client::NamePath where, std::uint64_t cookie) {
  Looked looked;
  SPATE_CO_TRY(looked.object, co_await client.stat(std::move(where)));
  if (looked.object.attributes.type != FileType::kDirectory) co_return looked;
  wire::ReaddirRequest request;
  request.handle = looked.object.attributes.handle;
  request.cookie = cookie;
  request.attributes = true;
  SPATE_CO_TRY(looked.entries, co_await client.readdir(request));
  co_return looked;
}

nlohmann::json entries_of(const wire::ReaddirReply& page) {
  const std::size_t shown = std::min(page.entries.size(), kMostEntries);
  nlohmann::json entries = nlohmann::json::array();
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& entry = page.entries[i];
    const std::uint64_t size = entry.attributes ? entry.attributes->size : 0;
    entries.push_back({{"name", printable(entry.name)}, {"type", type_name(entry.type)}, {"size", size}});
  }
  nlohmann::json next;
  if (shown > 0 && (shown < page.entries.size() || !page.end)) next = std::to_string(page.entries[shown - 1].cookie);
  return {{"entries", entries}, {"next", next}};
}

nlohmann::json slots_of_file(const Layout& layout, std::uint64_t size, const GroupMap& groups) {
  const auto distribution = make_distribution(layout);
  nlohmann::json slots = nlohmann::json::array();
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    nlohmann::json targets = nlohmann::json::array();
    for (const TargetId target : targets_of(layout.slots[i], groups)) {
      targets.push_back({{"target", target.value}, {"server", server_of(target).value}});
    }
    const auto slot = static_cast<std::uint32_t>(i);
    slots.push_back({{"targets", targets},
                     {"bytes", distribution ? (*distribution)->physical_size(slot, size) : std::uint64_t{0}}});
  }
  return slots;
}

int digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace

Result<nlohmann::json> strips_of(const Layout& layout, std::uint64_t size, std::uint64_t from) {
  SPATE_TRY(const auto distribution, make_distribution(layout));
  nlohmann::json strips = nlohmann::json::array();
  std::uint64_t at = std::min(from, size);
  while (at < size && strips.size() < kMostStrips) {
    const Physical place = distribution->to_physical(at);
    const std::uint64_t bytes = std::min(distribution->contiguous_bytes(at), size - at);
    strips.push_back({at, bytes, place.slot, place.offset});
    at += bytes;
  }
  return nlohmann::json{{"strips", strips},
                        {"next", at < size ? nlohmann::json(std::to_string(at)) : nlohmann::json()}};
}

std::string shown_name(std::string_view shown) {
  std::string name;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const bool escape = shown.substr(i, 2) == "\\x" && i + 3 < shown.size();
    const int high = escape ? digit(shown[i + 2]) : -1;
    const int low = escape ? digit(shown[i + 3]) : -1;
    if (high < 0 || low < 0) {
      name += shown[i];
    } else {
      name += static_cast<char>(high * 16 + low);
      i += 3;
    }
  }
  return name;
}

Result<nlohmann::json> look_at_path(assembly::ClientProcess& process, const std::string& path, std::uint64_t from) {
  SPATE_TRY(const Looked looked, process.run([&](client::Client& client) {
    return look_at_object(client, client::path_from_root(path), from);
  }));
  nlohmann::json told = to_json(looked.object.attributes);
  told["path"] = printable(path);
  if (looked.object.layout) {
    const Layout& layout = *looked.object.layout;
    const std::uint64_t size = looked.object.attributes.size;
    SPATE_TRY(nlohmann::json strips, strips_of(layout, size, from));
    told["layout"] = to_json(layout);
    SPATE_TRY(const GroupMap groups, groups_of(process, layout));
    told["layout"]["slots"] = slots_of_file(layout, size, groups);
    told.update(strips);
  } else if (looked.object.attributes.type == FileType::kDirectory) {
    told.update(entries_of(looked.entries));
  }
  return told;
}

}  // namespace spate::tools
