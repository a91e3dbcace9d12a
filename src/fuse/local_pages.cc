// SPDX-License-Identifier: Apache-2.0
#include "fuse/local_pages.h"

#include <algorithm>
#include <utility>

#include "client/attributes/local_answers.h"

namespace spate::fuse {
namespace {

void cut(wire::ReaddirReply& page, std::size_t most) {
  const auto before = [](const auto& a, const auto& b) { return a.cookie < b.cookie; };
  std::sort(page.entries.begin(), page.entries.end(), before);
  if (page.entries.size() <= most) return;
  const std::uint64_t last = page.entries[most].cookie;
  while (most > 0 && page.entries[most - 1].cookie == last) --most;
  page.entries.resize(most);
  page.end = false;
}

}  // namespace

Result<wire::ReaddirReply> page_after_local(const ServerPages& pages, std::uint64_t cookie, std::size_t most) {
  wire::ReaddirReply all;
  all.end = true;
  std::uint64_t place = 0;
  for (bool ended = false; !ended;) {
    SPATE_TRY(wire::ReaddirReply page, pages(place));
    ended = page.end || page.entries.empty();
    if (!ended) place = page.entries.back().cookie;
    all.parent = page.parent;
    for (wire::DirectoryEntry& entry : page.entries) {
      entry.cookie = client::local_cookie(entry.name);
      if (entry.cookie > cookie) all.entries.push_back(std::move(entry));
    }
    if (all.entries.size() > 2 * most) cut(all, most);
  }
  cut(all, most);
  return all;
}

}  // namespace spate::fuse
