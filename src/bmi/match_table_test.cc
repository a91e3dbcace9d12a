// SPDX-License-Identifier: Apache-2.0
#include "bmi/match_table.h"

#include <array>
#include <deque>
#include <map>
#include <memory>

#include "base/expect.h"
#include "base/random.h"

namespace spate::bmi {
namespace {

TEST(MatchTable, KeepsTheOrderOfEqualTags) {
  MatchTable table(1);
  std::array<Node, 4> nodes;
  for (Node& node : nodes) node.tag = 5;
  table.push_back(nodes[0]);
  table.push_back(nodes[1]);
  table.push_front(nodes[2]);
  EXPECT_EQ(table.front(5), &nodes[2]);
  table.remove(nodes[0]);
  table.remove(nodes[2]);
  EXPECT_EQ(table.front(5), &nodes[1]);
  table.remove(nodes[1]);
  EXPECT_EQ(table.front(5), nullptr);
  EXPECT_TRUE(table.empty()) << "all nodes were removed";
}

// Compares random operations with a simple model, with few and with many tags.
TEST(MatchTable, AgreesWithAMapOfQueues) {
  for (const std::uint64_t tags : {3U, 50U, 5000U}) {
    SeededRandom random(tags);
    MatchTable table(random.next());
    std::map<std::uint64_t, std::deque<Node*>> model;
    std::deque<std::unique_ptr<Node>> nodes;
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t tag = random.below(tags) * 1024;
      if (random.chance(11, 20)) {
        nodes.push_back(std::make_unique<Node>());
        nodes.back()->tag = tag;
        table.push_back(*nodes.back());
        model[tag].push_back(nodes.back().get());
      } else if (auto& queue = model[tag]; !queue.empty()) {
        const std::size_t at = random.below(queue.size());
        if (at == 0 && random.chance(1, 2)) {
          ASSERT_EQ(table.take_front(tag), queue[0]);
        } else {
          table.remove(*queue[at]);
        }
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(at));
      }
      const auto& queue = model[tag];
      if (queue.empty()) ASSERT_EQ(table.take_front(tag), nullptr);
      ASSERT_EQ(table.front(tag), queue.empty() ? nullptr : queue.front());
    }
    for (const auto& [tag, queue] : model) ASSERT_EQ(table.front(tag), queue.empty() ? nullptr : queue.front());
    std::size_t left = 0;
    for (const auto& [tag, queue] : model) left += queue.size();
    while (Node* node = table.take_any()) {
      EXPECT_EQ(model[node->tag].front(), node);
      model[node->tag].pop_front();
      --left;
    }
    EXPECT_EQ(left, 0U);
  }
}

}  // namespace
}  // namespace spate::bmi
