// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of attribute leases: a role meta with several sessions.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/expect.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {

/// Its sessions last long, so that leases expire first.
class MetaLeases : public RoleTest {
 protected:
  explicit MetaLeases(std::uint64_t seed = 1, bool overlap = false) : RoleTest(seed, overlap) {
    options.session_lease = std::chrono::seconds(30);
  }

  Duration lease() const { return options.session_lease / 4; }

  /// A client that keeps what lookups tell it.
  struct Keeping {
    TestClient client;
    std::uint64_t table = 0;
    std::uint64_t acknowledged = 0;
    std::vector<Handle> recalled;
  };
  Keeping keeping() { return {connect(), 0, 0, {}}; }

  Result<wire::LookupLeaseReply> look(Keeping& k, std::string path, std::uint8_t flags = 0) {
    wire::LookupLeaseRequest request;
    request.where = at(std::move(path));
    request.where.flags = flags;
    auto reply = asked<wire::LookupLeaseReply>(k.client, std::move(request), no_id());
    if (reply && reply->granted) k.table = reply->table;
    return reply;
  }
  /// Looks the path up and keeps the result.
  Handle keep(Keeping& k, std::string path) {
    const auto reply = look(k, std::move(path));
    EXPECT_OK(reply);
    if (!reply) return {};
    EXPECT_TRUE(is_granted(*reply));
    EXPECT_NE(reply->object, std::nullopt);
    return reply->object ? reply->object->attributes.handle : Handle();
  }
  /// Asks for events. This acknowledges earlier recalls.
  std::vector<Handle> events(Keeping& k) {
    const wire::SessionEventsRequest ask{k.table, k.acknowledged, 0};
    const auto reply = asked<wire::SessionEventsReply>(k.client, ask, no_id());
    EXPECT_OK(reply);
    std::vector<Handle> recalled;
    for (const wire::SessionEvent& event : reply->events) {
      k.acknowledged = event.number;
      if (event.type == wire::SessionEventType::kLeaseRecalled) recalled.emplace_back(event.subject);
    }
    k.table = reply->table;
    return recalled;
  }
  /// Fetches recalls and acknowledges them.
  void drop_what_is_recalled(Keeping& k) {
    while (!events(k).empty()) {
    }
  }
  std::int64_t counted(const std::string& what) const {
    const metrics::Snapshot snapshot = metrics.snapshot();
    const metrics::Sample* const sample = snapshot.find("spate_server_meta_" + what, {});
    return sample == nullptr ? -1 : sample->value;
  }
  metrics::HistogramData changes_that_waited() const {
    const metrics::Snapshot snapshot = metrics.snapshot();
    const metrics::Sample* const sample = snapshot.find("spate_server_meta_lease_wait_ns", {});
    return sample == nullptr ? metrics::HistogramData() : sample->histogram;
  }
  std::unique_ptr<Pending<wire::ObjectReply>> begin_chmod(TestClient& client, std::string path,
                                                          std::uint32_t mode = 0600,
                                                          Duration deadline = std::chrono::seconds(60)) {
    wire::SetattrRequest request;
    request.where = at(std::move(path));
    request.mode = mode;
    return begin<wire::ObjectReply>(client, std::move(request), id(++client.next), deadline);
  }
};

}  // namespace spate::meta
