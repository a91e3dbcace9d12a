// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of ChangeBatcher: a server that answers when the test says so.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expect.h"
#include "client/session/change_batcher.h"
#include "wire/archive.h"
#include "wire/lease_messages.h"

namespace spate::client {

inline Bytes body_of(const std::string& text) { return to_bytes(as_bytes(text)); }

/// A server that answers when the test says so: each change with its own body. In a batch "bad" gets kExists, "other"
/// kNotSupported and "large" kMessageTooBig.
class ChangeBatcherTest : public ::testing::Test {
 protected:
  struct Request {
    explicit Request(job::Executor& executor) : answered(executor) {}
    wire::Op op{};
    Bytes body;
    Limits limits;
    Errc fails = Errc::kOk;
    job::Event answered;
  };

  ~ChangeBatcherTest() override {
    for (const auto& request : requests_) request->answered.set();
    settle();
    bool closed = false;
    job::Gate last(executor_);
    job::spawn(last, close(closed));
    settle();
    EXPECT_TRUE(closed) << "a change still waits, though all " << requests_.size() << " requests were answered";
  }

  void settle() {
    while (executor_.step()) {
    }
  }
  void pass(Duration span) {
    clock_.set(clock_.now() + span);
    settle();
  }
  /// Starts a task that makes one change. Returns the index of its result.
  std::size_t change(const std::string& text, Limits limits = {MonoTime::never(), {}, {}, 0, {}, {}}) {
    outcomes_.emplace_back();
    job::spawn(gate_, make(text, std::move(limits), outcomes_.size() - 1));
    settle();
    return outcomes_.size() - 1;
  }
  void answer(std::size_t request, Errc fails = Errc::kOk) {
    requests_.at(request)->fails = fails;
    requests_.at(request)->answered.set();
    settle();
  }
  std::vector<std::string> texts(std::size_t request) const {
    const Request& one = *requests_.at(request);
    if (one.op != wire::Op::kChangeBatch) return {std::string(as_text(one.body))};
    const auto batch = wire::decode_body<wire::ChangeBatchRequest>(one.body);
    EXPECT_OK(batch);
    std::vector<std::string> out;
    for (const wire::BatchedChange& change : batch->changes) out.emplace_back(as_text(change.body));
    return out;
  }
  /// Starts two changes, so that later ones wait.
  void fill() {
    change("first");
    change("second");
    ASSERT_EQ(requests_.size(), 2U);
  }

  ManualClock clock_;
  job::Executor executor_{clock_, {}};
  job::Gate gate_{executor_};
  std::deque<std::unique_ptr<Request>> requests_;
  std::uint64_t features_ = 0;
  std::vector<std::optional<Result<std::string>>> outcomes_;
  std::map<std::size_t, std::shared_ptr<const ChangeLists>> lists_;  // by the index of the result
  std::size_t message_bytes_ = 0;                                    // of all replies that changes got
  job::StopSource stopping_;
  ChangeBatcher batcher_{executor_, gate_, job::StopToken(stopping_),
                         [this](wire::Op op, ByteView body, const Limits& limits, std::uint32_t) {
                           return serve(op, to_bytes(body), limits);
                         }};

 private:
  job::Task<void> close(bool& closed) {
    co_await gate_.close();
    closed = true;
  }
  job::Task<void> make(std::string text, Limits limits, std::size_t place) {
    const Bytes body = body_of(text);
    auto reply = co_await batcher_.send(wire::Op::kUnlink, body, limits);
    if (reply) {
      outcomes_[place] = std::string(as_text(reply->raw.body));
      lists_[place] = reply->lists;
      message_bytes_ += reply->raw.message.size();
    } else {
      outcomes_[place] = reply.error();
    }
  }
  static Bytes answer_to(wire::Op op, const Bytes& body) {
    if (op != wire::Op::kChangeBatch) return body;
    const auto batch = wire::decode_body<wire::ChangeBatchRequest>(body);
    wire::ChangeBatchReply reply;
    for (const wire::BatchedChange& change : batch->changes) {
      wire::BatchedAnswer& one = reply.answers.emplace_back();
      const std::string text(as_text(change.body));
      one.status = Errc::kOk;
      if (text == "bad") one.status = Errc::kExists;
      if (text == "other") one.status = Errc::kNotSupported;
      if (text == "large") one.status = Errc::kMessageTooBig;
      if (one.status == Errc::kOk) one.body = change.body;
    }
    Bytes out;
    wire::encode_body(reply, out);
    return out;
  }
  job::Task<Result<rpc::RawReply>> serve(wire::Op op, Bytes body, Limits limits) {
    requests_.push_back(std::make_unique<Request>(executor_));
    Request& request = *requests_.back();
    request.op = op;
    request.body = body;
    request.limits = limits;
    SPATE_CO_TRY(std::ignore, co_await request.answered.wait(limits.stop));
    if (request.fails != Errc::kOk) co_return request.fails;
    Bytes bytes;
    if ((features_ & wire::kFeatureLeases) != 0) wire::encode_body(wire::Touched{true, {Handle(7)}, {}}, bytes);
    const Bytes answer = answer_to(op, body);
    bytes.insert(bytes.end(), answer.begin(), answer.end());
    rpc::RawReply reply;
    reply.features = features_;
    reply.message = Buffer::copy_of(bytes);
    reply.body = reply.message.view();
    co_return reply;
  }
};

}  // namespace spate::client
