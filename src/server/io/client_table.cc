// SPDX-License-Identifier: Apache-2.0
#include "server/io/client_table.h"

namespace spate::io {

ClientTable::Entry* ClientTable::find(ClientId client) {
  const auto found = entries_.find(client);
  if (found == entries_.end()) return nullptr;
  if (found->second != order_.begin()) order_.splice(order_.begin(), order_, found->second);
  return &*found->second;
}

ClientTable::Entry& ClientTable::add(ClientId client) {
  if (Entry* const known = find(client)) return *known;
  if (entries_.size() >= max_) forget_oldest();
  order_.emplace_front(executor_, client);
  entries_.emplace(client, order_.begin());
  return order_.front();
}

void ClientTable::forget_oldest() {
  for (auto it = order_.end(); it != order_.begin();) {
    --it;
    if (it->active != nullptr || it->pins > 0) continue;
    entries_.erase(it->client);
    order_.erase(it);
    return;
  }
}

ActiveRequest::ActiveRequest(ClientTable::Entry* entry, std::uint64_t its_incarnation, std::uint32_t its_epoch,
                             job::StopToken parent)
    : incarnation(its_incarnation), epoch(its_epoch), entry_(entry) {
  move_to(parent);
  if (entry_ == nullptr) return;
  next_ = entry_->active;
  if (next_ != nullptr) next_->previous_ = this;
  entry_->active = this;
}

ActiveRequest::~ActiveRequest() {
  if (entry_ == nullptr) return;
  (previous_ != nullptr ? previous_->next_ : entry_->active) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  entry_->one_ended.set();
}

void ActiveRequest::move_to(job::StopToken parent) {
  on_parent_.disarm();
  parent_ = parent;
  if (parent.stopped()) {
    stop_.request_stop(parent.reason());
    return;
  }
  on_parent_.arm(
      parent,
      [](void* self) {
        auto* request = static_cast<ActiveRequest*>(self);
        request->stop_.request_stop(request->parent_.reason());
      },
      this);
}

}  // namespace spate::io
