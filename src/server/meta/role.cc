// SPDX-License-Identifier: Apache-2.0
#include "server/meta/role.h"

namespace spate::meta {

MetaRole::MetaRole(MetaOptions options, job::KeyvalContext& store, Random& random, metrics::Registry& metrics,
                   IoServers& io)
    : core_(std::move(options), store, random, metrics),
      answers_(store, core_.options().answer_slots),
      opens_(core_),
      events_(core_),
      locks_(core_, events_),
      leases_(core_, events_, metrics),
      sessions_(core_, answers_, opens_),
      intent_recovery_(core_),
      removals_(core_, metrics),
      service_(core_, &locks_) {
  core_.attach({&io, &sessions_, &answers_, &opens_, &removals_, &intent_recovery_, &locks_, &leases_, &events_});
}

job::Task<Result<void>> MetaRole::start() {
  SPATE_CO_TRY(std::ignore, co_await core_.start());
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
  auto stopped = co_await core_.stop();
  co_return stopped;
}

}  // namespace spate::meta
