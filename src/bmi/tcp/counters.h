// SPDX-License-Identifier: Apache-2.0
// TcpCounters: what a tcp module counts.
#pragma once

#include <cstdint>

namespace spate::bmi::tcp {

/// X(name, description). No counter ever decreases.
#define SPATE_TCP_COUNTERS(X)                                                                     \
  X(sent_bytes, "taken by the kernel, headers included")                                          \
  X(lent_bytes, "of sent_bytes, taken without a copy (MSG_ZEROCOPY)")                             \
  X(zero_copy_sends, "calls that took them and have ended")                                       \
  X(zero_copy_sends_copied, "of these, where the kernel or the device had to copy after all")     \
  X(received_bytes, "read from the kernel, headers included")                                     \
  X(sent_messages, "begun to be sent, of every class")                                            \
  X(received_messages, "received whole, whether a receive was posted or not")                     \
  X(connections_made, "opened by this side, bulk ones included")                                  \
  X(connections_accepted, "opened by the other side")                                             \
  X(connections_lost, "peers whose connections ended without a disconnect by this side")          \
  X(connections_idle, "peers whose connections were given up because nothing was asked of them")  \
  X(credit_stalls, "messages that waited for the receiver's credit, or for room to be announced") \
  X(protocol_errors, "peers dropped for what they sent, authenticated or not")                    \
  X(dropped_messages, "payloads that came for a receive that was gone")                           \
  X(tls_connections, "whose TLS handshake succeeded, on either side")                             \
  X(tls_sent_by_kernel, "of these, where the kernel encrypts what is sent")                       \
  X(tls_failures, "TLS handshakes that failed")                                                   \
  X(refused, "handshakes that failed, were refused or came too late")                             \
  X(unauthenticated_dropped,                                                                      \
    "dropped because they were not admitted in time, or were too many (NetworkOptions::unauthenticated)")

struct TcpCounters {
#define SPATE_TCP_COUNTER(name, what) std::uint64_t name = 0;
  SPATE_TCP_COUNTERS(SPATE_TCP_COUNTER)
#undef SPATE_TCP_COUNTER
};

}  // namespace spate::bmi::tcp
