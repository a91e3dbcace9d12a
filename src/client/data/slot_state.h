// SPDX-License-Identifier: Apache-2.0
// SlotState: a server's report on a datafile.
#pragma once

#include "model/ids.h"
#include "wire/io_messages.h"

namespace spate::client {

/// A server's report on one slot's datafile, and the process that sent it.
struct SlotState {
  std::uint32_t slot = 0;
  wire::DatafileState state;
  Incarnation incarnation;
  bool by_client = false;  // a write bypassed the server: `state` has only a lower bound of its change counter
  std::uint64_t lost = 0;  // answer of a sync: writes up to this change counter may be lost; 0: none
};

}  // namespace spate::client
