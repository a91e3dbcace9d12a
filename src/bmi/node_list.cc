// SPDX-License-Identifier: Apache-2.0
#include "bmi/node_list.h"

namespace spate::bmi {

void NodeList::push_back(Node& node) {
  node.previous = tail_;
  node.next = nullptr;
  (tail_ != nullptr ? tail_->next : head_) = &node;
  tail_ = &node;
}

void NodeList::push_front(Node& node) {
  node.previous = nullptr;
  node.next = head_;
  (head_ != nullptr ? head_->previous : tail_) = &node;
  head_ = &node;
}

void NodeList::remove(Node& node) {
  (node.previous != nullptr ? node.previous->next : head_) = node.next;
  (node.next != nullptr ? node.next->previous : tail_) = node.previous;
}

Node* NodeList::pop_front() {
  Node* node = head_;
  if (node != nullptr) remove(*node);
  return node;
}

}  // namespace spate::bmi
