// SPDX-License-Identifier: Apache-2.0
#include "server/io/io_service.h"

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "server/io/mirror/mirrors.h"
#include "server/io/parts.h"
#include "server/io/peer_memory.h"
#include "server/io/registration.h"
#include "server/io/removal.h"
#include "server/io/store.h"

namespace spate::io {
namespace {

constexpr Duration kRedoPause = std::chrono::seconds(5);

}  // namespace

Parts::Parts(const IoOptions& options_in, std::vector<IoTarget> targets_in, job::KeyvalContext& keyval_in,
             job::NetworkContext& network, metrics::Registry& metrics)
    : options(options_in),
      executor(network.executor()),
      keyval(keyval_in),
      counters(metrics),
      pool(network.network(), network.executor(), {options.buffer_bytes}, metrics),
      flow{network, pool, counters, {std::clamp<std::size_t>(options.in_flight, 1, 64), options.stall_timeout}},
      marks(keyval),
      capabilities(options.server_key, options.fs, options.max_capabilities),
      clients(executor, options.max_clients),
      datafiles(executor, options.max_datafiles, options.max_descriptors),
      leases({executor, options, datafiles, targets}, metrics),
      gate(executor),
      refused(metrics, "spate_server_io_refused_total"),
      refused_log(executor.clock()),
      fell_back_log(executor.clock()),
      mirrors(std::make_unique<Mirrors>(*this, metrics)) {
  for (const IoTarget& target : targets_in) targets.emplace_back(target, executor, options.scheduler);
  open_peer_memory(*this, metrics);
  open_direct_memory(*this, metrics);
}

Parts::~Parts() = default;

IoService::IoService(const IoOptions& options, std::vector<IoTarget> targets, job::KeyvalContext& keyval,
                     job::NetworkContext& network, metrics::Registry& metrics)
    : parts_(std::make_unique<Parts>(options, std::move(targets), keyval, network, metrics)) {
  using rpc::Access;
  serve_encoded<wire::ReadRequest>(Access::kReaders, this, &IoService::read);
  serve<wire::WriteRequest>(Access::kWriters, this, &IoService::write);
  serve<wire::PunchRequest>(Access::kWriters, this, &IoService::punch);
  serve<wire::DatafileAllocateRequest>(Access::kWriters, this, &IoService::datafile_allocate);
  serve<wire::DatafileStatRequest>(Access::kReaders, this, &IoService::datafile_stat);
  serve<wire::DatafileSyncRequest>(Access::kReaders, this, &IoService::datafile_sync);
  serve<wire::DatafileFlushRequest>(Access::kReaders, this, &IoService::datafile_flush);
  serve<wire::DatafileRangesRequest>(Access::kReaders, this, &IoService::datafile_ranges);
  serve<wire::DatafileCopyRequest>(Access::kWriters, this, &IoService::datafile_copy);
  serve<wire::BypassLeaseRequest>(Access::kReaders, this, &IoService::bypass_lease);
  serve<wire::BypassReturnRequest>(Access::kReaders, this, &IoService::bypass_return);
  serve<wire::ExplainPathRequest>(Access::kReaders, this, &IoService::explain_path);
  serve<wire::IoStatfsRequest>(Access::kReaders, this, &IoService::io_statfs);
  serve<wire::DatafileTruncateRequest>(Access::kServersOnly, this, &IoService::datafile_truncate);
  serve<wire::DatafileRemoveRequest>(Access::kServersOnly, this, &IoService::datafile_remove);
  serve<wire::DatafileListRequest>(Access::kServersOnly, this, &IoService::datafile_list);
  serve<wire::DatafileProbeRequest>(Access::kServersOnly, this, &IoService::datafile_probe);
  serve<wire::DatafileDigestRequest>(Access::kServersOnly, this, &IoService::datafile_digest);
  serve<wire::FenceRequest>(Access::kServersOnly, this, &IoService::fence);
  serve<wire::UsedNumbersRequest>(Access::kServersOnly, this, &IoService::used_numbers);
  serve<wire::MirrorForwardRequest>(Access::kServersOnly, this, &IoService::mirror_forward);
  serve<wire::MirrorBeaconRequest>(Access::kServersOnly, this, &IoService::mirror_beacon);
  serve<wire::MirrorObeyRequest>(Access::kServersOnly, this, &IoService::mirror_obey);
  serve<wire::MirrorRecordsRequest>(Access::kServersOnly, this, &IoService::mirror_records);
  serve<wire::MirrorWindowRequest>(Access::kServersOnly, this, &IoService::mirror_window);
  serve<wire::MirrorFencesRequest>(Access::kServersOnly, this, &IoService::mirror_fences);
  serve<wire::CopyRenewRequest>(Access::kServersOnly, this, &IoService::copy_renew);
}

IoService::~IoService() = default;

job::Task<Result<void>> IoService::open(bool make) {
  SPATE_CO_TRY(std::ignore, co_await open_store(*parts_, make));
  SPATE_CO_TRY(std::ignore, co_await parts_->marks.load());
  if (parts_->options.groups) {
    SPATE_CO_TRY(std::ignore, co_await parts_->mirrors->load());
  }
  auto ended = co_await parts_->leases.end_left_over(parts_->stopping);
  co_return ended;
}

void IoService::start() { job::spawn(parts_->gate, purge_again_and_again()); }

void IoService::register_at(RegistrationOptions options, Random& random) {
  if (parts_->options.groups) parts_->mirrors->start(options, parts_->flow.network, random);
  registration_ = std::make_unique<Registration>(std::move(options), *parts_, parts_->flow.network, random);
  job::spawn(parts_->gate, registration_->run());
}

job::Task<void> IoService::stop() {
  parts_->stopping.request_stop();
  co_await parts_->mirrors->stop();
  co_await parts_->gate.close();
  co_await parts_->leases.stop();
}

job::Task<void> IoService::hand_over() { co_await parts_->mirrors->hand_over(); }
void IoService::leave_groups() { parts_->mirrors->leave(); }

job::Task<void> IoService::purge_again_and_again() {
  const Duration interval = parts_->options.purge_interval;
  for (Duration pause = kRedoPause;; pause *= 2) {
    const auto redone = co_await redo_removals(*parts_);
    if (!redone && !parts_->stopping.stopped())
      SPATE_LOG("server", warn, "removals not done again, will try again error={}", redone.error());
    pause = redone ? interval : std::min(interval, pause);
    const auto slept = co_await parts_->executor.sleep(pause, parts_->stopping);
    if (!slept) co_return;
    const auto purged = co_await purge();
    if (!purged) SPATE_LOG("server", warn, "expired records not removed, will try again error={}", purged.error());
  }
}

job::Task<Result<void>> IoService::purge() {
  const WallTime now = parts_->now();
  // A step that fails does not prevent the others.
  Result<void> failure = co_await parts_->leases.end_expired(parts_->stopping);
  const auto keep_first = [&failure](Result<void> done) {
    if (!done && failure) failure = std::move(done);
  };
  // Tombstones name the datafiles to remove again after a crash, so they stay until that is done.
  const bool may_go = parts_->removals_redone || parts_->options.boot == 0;
  for (bool more = may_go; more && !parts_->stopping.stopped();) {
    const auto purged = co_await purge_tombstones(*parts_, now);
    more = purged && *purged;
    if (!purged) keep_first(purged.error());
  }
  auto losses = co_await purge_losses(*parts_);
  keep_first(std::move(losses));
  const WallTime before{now.ns - parts_->options.longest_capability.count()};
  auto fences = co_await purge_fences(*parts_, before);
  keep_first(std::move(fences));
  co_return failure;
}

const flow::Counters& IoService::counters() const { return parts_->counters; }

}  // namespace spate::io
