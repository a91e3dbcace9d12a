// SPDX-License-Identifier: Apache-2.0
// Delegated directories while requests overlap: nobody reads a state that the holder's own answers have overtaken.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/audit_test.h"
#include "server/meta/testing/queue_test.h"

namespace spate::meta {
namespace {

using std::chrono::seconds;
using testing::Each;

/// One client reads while another fills delegated directories, in any order. The holder answers its changes itself.
class MetaDelegationRaces : public QueueTest, public testing::WithParamInterface<std::uint64_t> {
 protected:
  MetaDelegationRaces() : QueueTest(GetParam(), true) {
    holder.client.features = kFeatures;
    const auto reserved = reserve(holder, 4000);
    EXPECT_OK(reserved);
    holder.unused = reserved->first;
    EXPECT_OK(asked<wire::LookupLeaseReply>(holder.client, wire::LookupLeaseRequest{at("")}, no_id()));
  }
  template <typename Reply>
  using PendingPtr = std::unique_ptr<Pending<Reply>>;
  template <typename Reply, typename Request>
  PendingPtr<Reply> start(TestClient& client, Request request, wire::RequestId request_id) {
    auto pending = std::make_unique<Pending<Reply>>(executor);
    job::spawn(pending->gate, settle(ask<Reply>(client, std::move(request), request_id, seconds(300)), *pending));
    return pending;
  }

  void new_directory() {
    wire::MkdirRequest request;
    request.where = at("d" + std::to_string(++directories));
    request.attributes.mode = 0755;
    const auto made = asked<wire::ObjectReply>(holder.client, request);
    ASSERT_OK(made);
    directory = made->attributes.handle;
    mine = true;
    answered.clear();
  }
  void answer_one() {
    if (!mine) return;
    const std::string name = "f" + std::to_string(answered.size());
    unsent.push_back(create(holder, directory, name));
    answered.push_back("d" + std::to_string(directories) + "/" + name);
  }
  void send_queue() {
    if (sending != nullptr && !sending->result) return;
    if (sending != nullptr) ASSERT_THAT(statuses(*sending->result), Each(Errc::kOk));
    sending.reset();
    if (unsent.empty()) return;
    const std::uint64_t first = std::exchange(holder.next, holder.next + unsent.size());
    sending = start<wire::QueuedChangesReply>(holder.client,
                                              wire::QueuedChangesRequest{first, std::exchange(unsent, {})}, no_id());
  }
  void fetch() {
    if (fetching != nullptr && !fetching->result) return;
    if (fetching != nullptr) {
      const auto& reply = *fetching->result;
      ASSERT_OK(reply);
      for (const wire::SessionEvent& event : reply->events) {
        mine = mine && event.subject != directory.value;
        received = std::max(received, event.number);
      }
      table = reply->table;
    }
    if (unsent.empty() && (sending == nullptr || sending->result)) acknowledged = received;
    fetching =
        start<wire::SessionEventsReply>(holder.client, wire::SessionEventsRequest{table, acknowledged, 0}, no_id());
  }
  void read_one() {
    if (answered.empty()) return;
    wire::LookupRequest request{at(answered[random.below(answered.size())])};
    reads.emplace_back(request.where.path, start<wire::ObjectReply>(reader, request, no_id()));
  }
  void check_reads() {
    std::erase_if(reads, [](const auto& read) {
      if (!read.second->result) return false;
      EXPECT_OK(*read.second->result) << read.first;
      return true;
    });
  }

  Queueing holder{connect(), 1, {}};
  TestClient reader = connect();
  Handle directory;
  int directories = 0;
  bool mine = false;  // no recall of the directory has come
  std::vector<std::string> answered;
  std::vector<wire::QueuedChange> unsent;
  PendingPtr<wire::QueuedChangesReply> sending;
  PendingPtr<wire::SessionEventsReply> fetching;
  std::uint64_t table = 0;
  std::uint64_t received = 0;
  std::uint64_t acknowledged = 0;
  std::vector<std::pair<std::string, PendingPtr<wire::ObjectReply>>> reads;

 private:
  template <typename Reply>
  static job::Task<void> settle(job::Task<Result<Reply>> task, Pending<Reply>& pending) {
    pending.result.emplace(co_await std::move(task));
  }
};

TEST_P(MetaDelegationRaces, AReaderSeesAllThatTheHolderHasAnswered) {
  for (int round = 0; round < 10; ++round) {
    new_directory();
    for (int turn = 0; turn < 60; ++turn) {
      const std::uint64_t what = random.below(8);
      if (what < 3) answer_one();
      if (what == 3) send_queue();
      if (what == 4) fetch();
      if (what >= 5 && turn > 30) read_one();
      for (std::uint64_t steps = random.below(8); steps > 0; --steps) executor.step();
      check_reads();
    }
    for (int turn = 0; turn < 10'000 && !(reads.empty() && unsent.empty()); ++turn) {
      if (turn < 300 && random.chance(1, 3)) read_one();
      send_queue();
      fetch();
      pass_time();
      check_reads();
    }
    ASSERT_THAT(reads, testing::IsEmpty()) << "reads never ended";
  }
  while (sending != nullptr && !sending->result) pass_time();
  while (fetching != nullptr && !fetching->result) pass_time();
  Audit(*this).check();
}

INSTANTIATE_TEST_SUITE_P(Seeds, MetaDelegationRaces, testing::Range<std::uint64_t>(1, 21));

}  // namespace
}  // namespace spate::meta
