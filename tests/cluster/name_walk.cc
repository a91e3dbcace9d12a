// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/name_walk.h"

namespace spate::cluster {

NodeId node_at(const Tree& tree, const Spot& spot) {
  if (spot.name == kDot) return spot.directory;
  if (spot.name == kDotDot) return tree.find(spot.directory)->parent;
  return tree.entry(spot.directory, spot.name);
}

NodeId walk(const Tree& tree, const Targets& targets, const Path& path, bool follow_last, Errc& code) {
  Way way(tree, targets, path);
  for (;;) {
    const Spot spot = way.to_last();
    code = spot.code;
    if (code != Errc::kOk) return 0;
    const NodeId id = node_at(tree, spot);
    if (id == 0) {
      code = Errc::kNotFound;
      return 0;
    }
    const Node& node = *tree.find(id);
    if (node.type != FileType::kSymlink || !follow_last) return id;
    code = way.follow(node);
    if (code != Errc::kOk) return 0;
  }
}

}  // namespace spate::cluster
