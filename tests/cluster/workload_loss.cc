// SPDX-License-Identifier: Apache-2.0
// Several clients write one file before write-back fails, and sync it afterwards: each of them must hear of the error.
#include <optional>

#include "model/cluster_map.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

/// The size of each client's own place. A later write of another client to it would hide the loss.
constexpr std::uint64_t kPlaceBytes = 512;

/// The offset of the file's first strip on that server.
std::optional<std::uint64_t> first_on(ServerId server, const Layout& layout) {
  for (std::size_t slot = 0; slot < layout.slots.size(); ++slot) {
    const std::uint32_t target = layout.slots[slot].targets.front().value;
    if (ServerId(target / kMaxTargetsPerServer) == server) return slot * layout.strip_bytes;
  }
  return std::nullopt;
}

}  // namespace

job::Task<void> Workload::share_a_loss() {
  Scene::SharedLoss& shared = scene_.shared_loss;
  if (shared.handle == 0) {
    const OpenFilePtr chosen = some_open(Rights::kWrite);
    if (chosen != nullptr && first_on(shared.server, chosen->file->layout())) shared.handle = chosen->handle;
  }
  const OpenFilePtr open = shared.handle == 0 ? nullptr : writable(shared.handle);
  if (shared.handle == 0) {
    co_await open_something(false);
  } else if (open == nullptr) {
    co_await open_by_handle(shared.handle, Rights::kReadWrite, false);
  } else if (process_.executor().now() < shared.written) {
    const Layout& layout = open->file->layout();
    const std::uint64_t place = static_cast<std::uint64_t>(index_) * kPlaceBytes % layout.strip_bytes;
    std::vector<Extent> where{{*first_on(shared.server, layout) + place, 1 + random_.below(kPlaceBytes)}};
    co_await write_at(open, std::move(where));
  } else {
    co_await sync(open);
  }
}

}  // namespace spate::cluster
