// SPDX-License-Identifier: Apache-2.0
#include "tests/attacks/relay.h"

#include "base/check.h"
#include "job/deadline.h"

namespace spate::attacks {
namespace {

constexpr std::size_t kRoom = 64 * 1024;
constexpr Duration kTimeout = std::chrono::seconds(2);

}  // namespace

Relay::Relay(std::vector<std::unique_ptr<bmi::Module>> modules, job::Executor& executor, const RelayOptions& options)
    : network_(bmi::make_network(std::move(modules))),
      context_(std::make_unique<job::NetworkContext>(*network_, executor)),
      gate_(executor) {
  auto bound = network_->listen(options.listen, context_->id());
  SPATE_CHECK(bound.has_value());
  url_ = *bound;
  const std::vector<std::string> urls{options.target};
  auto target = network_->lookup(urls);
  SPATE_CHECK(target.has_value());
  target_ = *target;
  context_->on_unexpected([this](bmi::UnexpectedMessage message) { job::spawn(gate_, forward(std::move(message))); });
}

Relay::~Relay() {
  context_->on_unexpected({});
  stop_.request_stop();
  const auto idle = [](job::Gate& gate) -> job::Task<bool> {
    co_await gate.close();
    co_return true;
  };
  context_->executor().run(idle(gate_));
}

bool Relay::pass(Passing& passing) {
  seen_.push_back(passing);
  return !on_passing || on_passing(passing);
}

job::Task<Result<Bytes>> Relay::ask(const Bytes& request, bmi::Tag tag) {
  job::DeadlineScope scope(context_->executor(), context_->executor().now() + kTimeout, stop_);
  Bytes room(kRoom);
  const bmi::Segment in = bmi::Segment::of(MutableByteView(room));
  const bmi::Segment out = bmi::Segment::of(ByteView(request));
  bmi::Message message;
  message.peer = target_;
  message.tag = tag;
  message.segments = {&in, 1};
  job::NetworkOp receive(*context_);
  receive.post_recv(message);
  message.segments = {&out, 1};
  job::NetworkOp send(*context_);
  send.post_send_unexpected(message);
  const auto sent = co_await send.wait(scope.token());
  if (!sent) receive.cancel();
  const auto received = co_await receive.wait(scope.token());
  if (!sent) co_return sent.error();
  if (!received) co_return received.error();
  room.resize(static_cast<std::size_t>(*received));
  co_return room;
}

job::Task<void> Relay::forward(bmi::UnexpectedMessage message) {
  victim_ = message.peer;
  Passing request;
  request.tag = message.tag;
  request.bytes = to_bytes(std::as_const(message.payload).view());
  if (!pass(request)) co_return;
  auto answer = co_await ask(request.bytes, request.tag);
  if (!answer) co_return;
  Passing reply;
  reply.reply = true;
  reply.tag = message.tag;
  reply.bytes = *std::move(answer);
  if (!pass(reply)) co_return;
  const bmi::Segment out = bmi::Segment::of(ByteView(reply.bytes));
  bmi::Message back;
  back.peer = message.peer;
  back.tag = reply.tag;
  back.segments = {&out, 1};
  back.receiver_ready = true;
  job::NetworkOp send(*context_);
  send.post_send(back);
  std::ignore = co_await send.wait(stop_);
}

job::Task<Result<Bytes>> Relay::inject(Bytes request, bmi::Tag tag) {
  const bmi::Tag used = tag ? tag : bmi::Tag(own_tag_ += 1ULL << 20U);
  auto answer = co_await ask(request, used);
  co_return answer;
}

}  // namespace spate::attacks
