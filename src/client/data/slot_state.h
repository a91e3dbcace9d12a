// SPDX-License-Identifier: Apache-2.0
// SlotState: what a server said of a datafile.
#pragma once

#include "model/ids.h"
#include "wire/io_messages.h"

namespace spate::client {

/// What one server said of one slot's datafile, and which process said it.
struct SlotState {
  std::uint32_t slot = 0;
  wire::DatafileState state;
  Incarnation incarnation;
  bool by_client = false;  // written past the server: of `state`, only a counter that the write's is not below is known
  std::uint64_t lost = 0;  // a sync: writes up to this change counter may be lost; 0: none
};

}  // namespace spate::client
