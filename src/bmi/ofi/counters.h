// SPDX-License-Identifier: Apache-2.0
// OfiCounters: what an ofi module counts, beside its pin-down caches.
#pragma once

#include <cstdint>

namespace spate::bmi::ofi {

/// X(name, description). No counter ever decreases.
#define SPATE_OFI_COUNTERS(X)                                                                                      \
  X(packets_sent, "handed to the provider")                                                                        \
  X(sent_at_once, "messages that left in their post, without an operation")                                        \
  X(packets_received, "well-formed or not")                                                                        \
  X(packet_bytes, "payload received in packets, copied once")                                                      \
  X(read_bytes, "payload read straight into posted receives")                                                      \
  X(connections, "sessions opened by either side")                                                                 \
  X(connections_lost, "sessions that ended without a disconnect by this side")                                     \
  X(protocol_errors, "peers dropped for what they sent, authenticated or not")                                     \
  X(no_session, "packets that belong to no session")                                                               \
  X(unauthenticated_dropped,                                                                                       \
    "dropped because they were not admitted in time, or were too many (NetworkOptions::unauthenticated)")          \
  X(dropped_messages, "payloads that came for a receive that was gone")                                            \
  X(aborted, "messages that their sender broke off")                                                               \
  X(refused, "hellos that were refused")                                                                           \
  X(copied_for_want_of_registration, "large messages sent in packets, since their memory could not be registered") \
  X(copied_below_limit, "large messages sent in packets, since copying costs less than registering them")          \
  X(endpoints_reopened, "since a read did not end or a connection had failed for good")

struct OfiCounters {
#define SPATE_OFI_COUNTER(name, what) std::uint64_t name = 0;
  SPATE_OFI_COUNTERS(SPATE_OFI_COUNTER)
#undef SPATE_OFI_COUNTER
};

}  // namespace spate::bmi::ofi
