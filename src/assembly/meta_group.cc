// SPDX-License-Identifier: Apache-2.0
#include "assembly/meta_group.h"

#include <algorithm>

#include "base/codec.h"
#include "group/group_bootstrap.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::assembly {
namespace {

constexpr Duration kShowEvery = std::chrono::seconds(1);

group::ChannelLinkOptions link_options(const MetaGroupOptions& options) {
  group::ChannelLinkOptions link;
  link.fs = options.fs;
  link.server_key = options.server_key;
  link.handshake = options.handshake;
  link.description = "meta server " + std::to_string(options.self.value);
  for (const auto& member : options.members) {
    if (member.server != options.self) link.members.push_back(member);
  }
  return link;
}

group::MemberOptions member_options(const MetaGroupOptions& options, Random& random) {
  group::MemberOptions member;
  member.self = options.self;
  member.boot = options.boot;
  member.process = random.next() | 1U;
  return member;
}

}  // namespace

MetaGroup::MetaGroup(MetaGroupOptions options, std::unique_ptr<coord::Coordinator> coordinator, trove::Keyval& store,
                     job::NetworkContext& network, Random& random, metrics::Registry& metrics)
    : options_(std::move(options)),
      executor_(network.executor()),
      keyval_(store, trove::ReplicatedOptions{}),
      records_(std::make_unique<job::KeyvalContext>(keyval_, executor_)),
      coordinator_(std::move(coordinator)),
      link_(link_options(options_), network, random),
      member_(member_options(options_, random), *coordinator_, link_, *records_, keyval_),
      service_(member_),
      gauges_(metrics),
      gate_(executor_) {}

job::Task<Result<void>> MetaGroup::start(Actions actions) {
  actions_ = std::move(actions);
  SPATE_CO_TRY(std::ignore, co_await member_.start());
  started_ = true;
  group::GroupBootstrapOptions bootstrap;
  bootstrap.self = options_.self;
  bootstrap.min = options_.min_copies;
  for (const auto& member : options_.members) bootstrap.members.push_back(member.server);
  std::sort(bootstrap.members.begin(), bootstrap.members.end());
  job::spawn(gate_, group::bootstrap_group(std::move(bootstrap), *coordinator_, link_, member_, executor_, stopping_));
  job::spawn(gate_, lead_when_chosen());
  job::spawn(gate_, tell_end());
  job::spawn(gate_, show_state());
  co_return Result<void>();
}

job::Task<void> MetaGroup::lead_when_chosen() {
  const auto chosen = co_await member_.led().wait(stopping_);
  if (!chosen || has_resigned()) co_return;
  const auto begun = co_await actions_.lead();
  if (begun) {
    service_.begin_to_serve();
    SPATE_LOG("assembly", info, "this meta server leads epoch={}", member_.record().epoch);
    co_return;
  }
  if (has_resigned() || stopping_.stopped()) co_return;
  SPATE_LOG("assembly", error, "this meta server was chosen to lead and cannot: {}", begun.error());
  member_.failed(Error::told(Errc::kIoError, "its role meta does not start: " + begun.error().message()));
}

job::Task<void> MetaGroup::tell_end() {
  const auto resigned = co_await member_.resigned().wait(stopping_);
  if (!resigned) co_return;
  std::ignore = co_await executor_.sleep(member_.pause(), stopping_);
  if (!stopping_.stopped()) actions_.ended();
}

job::Task<void> MetaGroup::show_state() {
  const job::StopToken stop(stopping_);
  for (MonoTime heard = executor_.now(); !stop.stopped();) {
    heard = std::max(heard, member_.record_read_at());
    const group::GroupRecord& record = member_.record();
    gauges_.leads.set(service_.serves() ? 1 : 0);
    gauges_.missing.set(static_cast<std::int64_t>(record.members.size() - record.serving()));
    gauges_.record_age.set(std::chrono::duration_cast<std::chrono::seconds>(executor_.now() - heard).count());
    std::ignore = co_await executor_.sleep(kShowEvery, stop);
  }
}

job::Task<void> MetaGroup::hand_over() {
  if (!started_ || !member_.leads()) co_return;
  const auto handed_over = co_await member_.hand_over(stopping_);
  if (!handed_over) SPATE_LOG("assembly", warn, "the lead is not handed over: {}", handed_over.error());
}

job::Task<void> MetaGroup::stop() {
  stopping_.request_stop();
  if (started_) co_await member_.stop();
  co_await gate_.close();
}

Incarnation MetaGroup::incarnation() const {
  Bytes name;
  Encoder out(name);
  out.u64(options_.fs.value);
  out.u64(member_.record().loss);
  return Incarnation(hash64(name) | 1U);
}

}  // namespace spate::assembly
