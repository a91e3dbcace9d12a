// SPDX-License-Identifier: Apache-2.0
// NodeList: the lists that a module's operations and arrived messages stand in.
#pragma once

#include <cstdint>

namespace spate::bmi {

/// Something in a NodeList: an operation, or a message that arrived before its receive.
struct Node {
  Node* previous = nullptr;
  Node* next = nullptr;
  std::uint64_t tag = 0;
};

/// Doubly linked, not owning. O(1).
class NodeList {
 public:
  bool empty() const { return head_ == nullptr; }
  Node* front() const { return head_; }
  Node* back() const { return tail_; }
  void push_back(Node& node);
  void push_front(Node& node);
  void remove(Node& node);
  /// Null when empty.
  Node* pop_front();

 private:
  Node* head_ = nullptr;
  Node* tail_ = nullptr;
};

}  // namespace spate::bmi
