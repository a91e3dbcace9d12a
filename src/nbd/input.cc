// SPDX-License-Identifier: Apache-2.0
#include "nbd/input.h"

#include <cstring>

namespace spate::nbd {

void Input::tidy() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && end_ == memory_.size()) {
    move_to_front();
  }
}

void Input::make_room(std::size_t size) {
  if (memory_.size() - begin_ < size) move_to_front();
}

void Input::move_to_front() {
  std::memmove(memory_.data(), memory_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

}  // namespace spate::nbd
