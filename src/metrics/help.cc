// SPDX-License-Identifier: Apache-2.0
#include "metrics/help.h"

#include <algorithm>
#include <iterator>

namespace spate::metrics {
namespace {

struct Help {
  std::string_view name;
  std::string_view text;
};

// Ordered by name.
constexpr Help kHelp[] = {
    {"spate_bmi_aborted_total", "Messages that were cut short by their sender."},
    {"spate_bmi_connections_accepted_total", "Connections that the other side opened."},
    {"spate_bmi_connections_idle_total", "Connections that were given up because nothing was asked of them."},
    {"spate_bmi_connections_lost_total", "Connections that ended without a disconnect by this side."},
    {"spate_bmi_connections_made_total", "Connections that this side opened, those for bulk data included."},
    {"spate_bmi_credit_stalls_total", "Messages that waited until the receiver had room for them."},
    {"spate_bmi_dropped_descriptors_total", "Descriptors that a peer passed beyond what is kept for it."},
    {"spate_bmi_dropped_messages_total", "Payloads that came for a receive that was gone."},
    {"spate_bmi_lane_bytes_total", "Bytes received over shared memory with two copies."},
    {"spate_bmi_lent_bytes_total", "Bytes of those sent that the kernel took without a copy (MSG_ZEROCOPY)."},
    {"spate_bmi_located_bytes_total", "Bytes received over shared memory with one copy."},
    {"spate_bmi_protocol_errors_total", "Peers dropped for what they sent, authenticated or not."},
    {"spate_bmi_received_bytes_total", "Bytes received from the network, headers included."},
    {"spate_bmi_received_messages_total", "Messages that were received whole."},
    {"spate_bmi_refused_total", "Connections that were refused, or whose handshake failed or came too late."},
    {"spate_bmi_sent_at_once_total", "Messages that left without waiting."},
    {"spate_bmi_sent_bytes_total", "Bytes sent to the network, headers included."},
    {"spate_bmi_sent_messages_total", "Messages that this side began to send."},
    {"spate_bmi_tls_connections_total", "Connections whose TLS handshake succeeded."},
    {"spate_bmi_tls_failures_total", "TLS handshakes that failed."},
    {"spate_bmi_tls_sent_by_kernel_total", "TLS connections where the kernel encrypts what is sent."},
    {"spate_bmi_unauthenticated_dropped_total",
     "Connections dropped because they proved no key in time, or were too many."},
    {"spate_bmi_zero_copy_sends_copied_total", "Sends without a copy where the kernel had to copy after all."},
    {"spate_bmi_zero_copy_sends_total", "Sends without a copy (MSG_ZEROCOPY) that have ended."},
    {"spate_flow_buffer_waits_total", "Transfers that waited because all buffers of the server were in use."},
    {"spate_flow_buffers_used_bytes", "Bytes of the buffers for bulk data that are in use now."},
    {"spate_flow_bytes_total", "Bytes of file contents that were read and written, by data path."},
    {"spate_flow_copied_bytes_total", "Bytes that the processor copied for that."},
    {"spate_flow_fallbacks_total", "How often this data path was wanted and another one had to be taken."},
    {"spate_flow_registered_bytes_total", "Bytes that a device moved to or from registered memory."},
    {"spate_group_leads", "1: this one of several meta servers leads."},
    {"spate_group_members_missing", "Meta servers that do not hold everything, as far as this one knows."},
    {"spate_group_record_age_seconds", "Seconds since etcd has told which meta server leads. 0 to 2 if it answers."},
    {"spate_rpc_audit_lines_total", "Lines written to the audit log."},
    {"spate_rpc_audit_lost_total", "Lines that could not be written to the audit log."},
    {"spate_rpc_audit_suppressed_total", "Lines left out of the audit log because there were too many of their kind."},
    {"spate_rpc_failed_total", "Requests that failed, by operation."},
    {"spate_rpc_refused_total", "Requests of clients that this server does not trust."},
    {"spate_rpc_request_ns", "Nanoseconds from the arrival of a request to its reply, by operation."},
    {"spate_rpc_slow_total", "Requests that took longer than log.slow_request."},
    {"spate_server_io_copied_to_members_bytes_total",
     "Bytes of mirrored files that this server has copied to servers that came back or took another one's place."},
    {"spate_server_io_groups_led", "Groups of mirrored targets that this server leads."},
    {"spate_server_io_groups_led_degraded", "Of these, groups that lack a copy of their data now."},
    {"spate_server_io_groups_leftover", "Groups whose old copies on this server are still to be removed."},
    {"spate_server_io_groups_without_room",
     "Groups that this server leads and that lack a copy, for which no other server has room."},
    {"spate_server_io_leases", "Datafiles that clients of this machine read or write by themselves now."},
    {"spate_server_io_leases_fenced_total", "Leases whose holder did not give them back in time and was fenced."},
    {"spate_server_io_leases_granted_total", "Leases on datafiles that clients of this machine were given."},
    {"spate_server_io_leases_recalled_total", "Leases on datafiles that were recalled."},
    {"spate_server_io_refused_total", "Requests for datafiles that were refused for their capability or session."},
    {"spate_server_io_regions_to_copy",
     "Regions of mirrored files that are still to be copied to a target that lacks them."},
    {"spate_server_meta_conflicts_total", "Changes of the name space that were tried again because of another one."},
    {"spate_server_meta_lease_wait_ns", "Nanoseconds that changes waited for the attribute leases of other clients."},
    {"spate_server_meta_leases_given_back_total", "Attribute leases that clients gave back when they were recalled."},
    {"spate_server_meta_leases_granted_total", "Answers that brought attribute leases."},
    {"spate_server_meta_leases_held", "Attribute leases that clients hold now."},
    {"spate_server_meta_leases_recalled_total", "Attribute leases that were recalled."},
    {"spate_server_meta_leases_run_out_total", "Attribute leases whose holder did not answer a recall in time."},
    {"spate_server_meta_removals_pending", "Removed files whose data is still to be removed from io servers."},
    {"spate_server_meta_resent_total", "Requests that were sent again and got the answer of the first time."},
    {"spate_trove_free_bytes", "Free bytes of the device below a store, without those that the system keeps for root."},
    {"spate_trove_free_files",
     "Files that can still be made on the device below a store; absent where there is no limit."},
    {"spate_trove_size_bytes", "Size of the device below a store."},
};
static_assert(std::ranges::is_sorted(kHelp, {}, &Help::name));

}  // namespace

std::string_view help_of(std::string_view name) {
  const auto* const found = std::ranges::lower_bound(kHelp, name, {}, &Help::name);
  return found != std::end(kHelp) && found->name == name ? found->text : std::string_view();
}

}  // namespace spate::metrics
