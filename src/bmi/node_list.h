// SPDX-License-Identifier: Apache-2.0
// NodeList: a list of a module's operations or of arrived messages.
#pragma once

#include <cstdint>

namespace spate::bmi {

/// An element of a NodeList: an operation, or a message that arrived before its receive.
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
  void push_back(Node& node) {
    node.previous = tail_;
    node.next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = &node;
    tail_ = &node;
  }
  void push_front(Node& node) {
    node.previous = nullptr;
    node.next = head_;
    (head_ != nullptr ? head_->previous : tail_) = &node;
    head_ = &node;
  }
  void remove(Node& node) {
    (node.previous != nullptr ? node.previous->next : head_) = node.next;
    (node.next != nullptr ? node.next->previous : tail_) = node.previous;
  }
  /// Null when empty.
  Node* pop_front() {
    Node* node = head_;
    if (node != nullptr) remove(*node);
    return node;
  }

 private:
  Node* head_ = nullptr;
  Node* tail_ = nullptr;
};

}  // namespace spate::bmi
