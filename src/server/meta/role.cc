// SPDX-License-Identifier: Apache-2.0
#include "server/meta/role.h"

namespace spate::meta {

MetaRole::MetaRole(MetaOptions options, job::KeyvalContext& store, Random& random, metrics::Registry& metrics,
                   IoServers& io)
    : service_(std::move(options), store, random, metrics, MetaParts{}),
      answers_(store, service_.core().options().answer_slots),
      opens_(service_.core()),
      events_(service_.core()),
      locks_(service_.core(), events_),
      leases_(service_.core(), events_, metrics),
      sessions_(service_.core(), answers_, opens_),
      intent_recovery_(service_.core()),
      removals_(service_.core(), metrics) {
  service_.core().attach(
      {&io, &sessions_, &answers_, &opens_, &removals_, &intent_recovery_, &locks_, &leases_, &events_});
}

job::Task<Result<void>> MetaRole::start() {
  SPATE_CO_TRY(std::ignore, co_await service_.start());
  SPATE_CO_TRY(std::ignore, co_await opens_.start());
  events_.start();
  SPATE_CO_TRY(std::ignore, co_await locks_.start());
  SPATE_CO_TRY(std::ignore, co_await leases_.start());
  SPATE_CO_TRY(std::ignore, co_await sessions_.start());
  SPATE_CO_TRY(std::ignore, co_await removals_.start());
  intent_recovery_.start();
  co_return {};
}

job::Task<Result<void>> MetaRole::stop() {
  co_await sessions_.stop();  // first, since it gives work to the others
  co_await intent_recovery_.stop();
  co_await removals_.stop();
  auto stopped = co_await service_.stop();
  co_return stopped;
}

}  // namespace spate::meta
