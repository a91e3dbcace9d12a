// SPDX-License-Identifier: Apache-2.0
#include "preload/broker_of_file.h"

namespace spate::preload {

Result<std::uint64_t> broker_of(Description& description) {
  SPATE_TRY(const BrokerPlace own, description.mount().broker());
  std::uint64_t known = 0;
  return description.state()->broker.compare_exchange_strong(known, own.id) ? own.id : known;
}

Result<BrokerReply> ask_about(Description& description, int descriptor, const BrokerRequest& request) {
  SPATE_TRY(const std::uint64_t broker, broker_of(description));
  if (descriptor >= 0) description.state()->kept.fetch_or(SharedState::kKnown);
  const Question question{description.mount(), broker, request, descriptor};
  return ask_broker(question);
}

}  // namespace spate::preload
