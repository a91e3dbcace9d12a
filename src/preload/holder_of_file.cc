// SPDX-License-Identifier: Apache-2.0
#include "preload/holder_of_file.h"

namespace spate::preload {

Result<std::uint64_t> holder_of(Description& description) {
  SPATE_TRY(const HolderPlace own, description.mount().holder());
  std::uint64_t known = 0;
  return description.state()->holder.compare_exchange_strong(known, own.id) ? own.id : known;
}

Result<HoldReply> ask_about(Description& description, int descriptor, const HoldRequest& request) {
  SPATE_TRY(const std::uint64_t holder, holder_of(description));
  if (descriptor >= 0) description.state()->kept.fetch_or(SharedState::kKnown);
  const Question question{description.mount(), holder, request, descriptor};
  return ask_holder(question);
}

}  // namespace spate::preload
