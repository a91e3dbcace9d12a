// SPDX-License-Identifier: Apache-2.0
#include "assembly/network_counters.h"

#include "assembly/registry.h"
#include "base/expect.h"

namespace spate::assembly {
namespace {

std::int64_t value_of(const metrics::Registry& registry, const char* name) {
  const metrics::Snapshot snapshot = registry.snapshot();
  const metrics::Sample* const sample = snapshot.find(name, {{"module", "tcp"}});
  return sample == nullptr ? -1 : sample->value;
}

TEST(NetworkCounters, ShowWhatTheTcpModuleCounts) {
  SystemClock clock;
  auto network = make_network(clock, config::FileSystemConfig(), false);
  ASSERT_OK(network);
  metrics::Registry registry;
  const NetworkCounters counters(registry, **network);
  const bmi::ContextId context = (*network)->open_context();
  const auto url = (*network)->listen("tcp://127.0.0.1:0", context);
  ASSERT_OK(url);
  EXPECT_EQ(value_of(registry, "spate_bmi_connections_accepted_total"), 0);
  EXPECT_EQ(value_of(registry, "spate_bmi_credit_stalls_total"), 0);
  EXPECT_EQ(value_of(registry, "spate_bmi_protocol_errors_total"), 0);
  bmi::Message message;
  message.peer = (*network)->lookup(std::array{*url}).value();  // its own address
  const Bytes request(10);
  const bmi::Segment segment = bmi::Segment::of(ByteView(request));
  message.segments = {&segment, 1};
  ASSERT_OK((*network)->post_send_unexpected(message, context, nullptr));
  std::array<bmi::UnexpectedMessage, 1> arrived;
  while ((*network)->test_unexpected(context, arrived) == 0) {
    std::array<bmi::Completion, 4> done;
    (void)(*network)->test_context(context, done);
  }
  EXPECT_EQ(value_of(registry, "spate_bmi_connections_made_total"), 1);
  EXPECT_EQ(value_of(registry, "spate_bmi_connections_accepted_total"), 1);
  EXPECT_EQ(value_of(registry, "spate_bmi_sent_messages_total"), 1);
  EXPECT_EQ(value_of(registry, "spate_bmi_received_messages_total"), 1);
  EXPECT_GT(value_of(registry, "spate_bmi_sent_bytes_total"), 10);
  EXPECT_GT(value_of(registry, "spate_bmi_received_bytes_total"), 10);
}

}  // namespace
}  // namespace spate::assembly
