// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of delegated directories.
#pragma once

#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/queue_test.h"

namespace spate::meta {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;

class MetaDelegations : public QueueTest {
 protected:
  /// A session with the feature that keeps what lookups tell it, and queues.
  struct Holder : Keeping {
    Queueing q;
  };
  Holder holder(Credential who = alice()) {
    Holder h{{}, queueing(std::move(who))};
    h.client = h.q.client;
    EXPECT_OK(look(h, ""));
    return h;
  }
  /// Fetches recalls without the acknowledgment of what it fetched before.
  std::vector<Handle> recalls(Holder& h) {
    const wire::SessionEventsRequest ask{h.table, h.acknowledged, 0};
    const auto reply = asked<wire::SessionEventsReply>(h.client, ask, no_id());
    EXPECT_OK(reply);
    std::vector<Handle> recalled;
    for (const wire::SessionEvent& event : reply->events) recalled.emplace_back(event.subject);
    if (!reply->events.empty()) last_event = reply->events.back().number;
    h.table = reply->table;
    return recalled;
  }
  /// Gives back what was recalled.
  void give_back(Holder& h) {
    h.acknowledged = last_event;
    recalls(h);
    run_ready();
  }
  /// The same for what is recalled in the next time: plain leases, too.
  void give_all_back(Holder& h) {
    for (int i = 0; i < 20; ++i) {
      recalls(h);
      give_back(h);
      wait(milliseconds(100));
    }
  }
  std::uint8_t flags_of(Handle object) const {
    for (const wire::GrantedObject& one : granted.objects) {
      if (one.object.attributes.handle == object) return one.flags;
    }
    return 0;
  }
  bool is_delegated(Handle object) const { return (flags_of(object) & wire::GrantedObject::kDelegated) != 0; }
  wire::MkdirRequest mkdir_request(std::string path, std::uint32_t mode = 0755) {
    wire::MkdirRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = mode;
    return request;
  }
  /// A directory that is delegated to the holder.
  Handle delegated(Holder& h, std::string path) {
    const auto made = asked<wire::ObjectReply>(h.q.client, mkdir_request(std::move(path)));
    EXPECT_OK(made);
    if (!made) return {};
    const Handle d = made->attributes.handle;
    EXPECT_TRUE(is_delegated(d));
    return d;
  }
  template <typename Reply, typename Request>
  auto begin_by(TestClient& client, Request request) {
    return begin<Reply>(client, std::move(request), no_id(), seconds(200));
  }
  template <typename Reply, typename Request>
  auto begin_change_by(TestClient& client, Request request) {
    return begin<Reply>(client, std::move(request), id(++client.next), seconds(200));
  }
  static wire::LookupRequest lookup(std::string path) { return {at(std::move(path))}; }

  /// The request of another session waits for what the holder has queued in a directory of its own, and sees it.
  template <typename Reply, typename Request>
  Result<Reply> waits(Request request, bool change) {
    Holder h = holder(root_user());
    const std::string name = "d" + std::to_string(++count);
    const Handle d = delegated(h, name);
    TestClient b = connect(root_user());
    auto asks = change ? begin_change_by<Reply>(b, std::move(request)) : begin_by<Reply>(b, std::move(request));
    EXPECT_EQ(asks->result, std::nullopt) << "it did not wait";
    EXPECT_EQ(recalls(h), std::vector<Handle>{d});
    EXPECT_EQ(asks->result, std::nullopt);
    EXPECT_THAT(statuses(send(h.q, {create(h.q, d, "f", kRW | wire::kOpenExclusive), symlink(h.q, d, "l")})),
                Each(Errc::kOk));
    EXPECT_EQ(asks->result, std::nullopt) << "it did not wait until the delegation was given back";
    give_back(h);
    give_all_back(h);
    EXPECT_NE(asks->result, std::nullopt) << "it never ended";
    if (!asks->result) return Errc::kTimeout;
    return *asks->result;
  }

  /// `b` looks up `d` and stays alive, for at most 100 seconds, and finds it. After each second,
  /// `meanwhile(waited, found)`.
  template <typename Meanwhile>
  void looks_up_d(TestClient& b, Meanwhile meanwhile) {
    auto looks = begin_by<wire::ObjectReply>(b, lookup("d"));
    for (int i = 1; i <= 100 && !looks->result; ++i) {
      wait(seconds(1));
      ASSERT_OK(keep_alive(b));
      meanwhile(seconds(i), looks->result.has_value());
    }
    EXPECT_OK(looks->result);
  }

  std::uint64_t last_event = 0;
  int count = 0;
};

}  // namespace spate::meta
