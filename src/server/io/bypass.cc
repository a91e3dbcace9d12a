// SPDX-License-Identifier: Apache-2.0
// Bypass leases: grants them to clients of this machine, and takes them back.
#include "job/run_all.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// One request for leases. Lives on the handler's frame.
struct LeaseWork {
  Parts& parts;
  const rpc::Call& call;
  const wire::BypassLeaseRequest& request;
  ActiveRequest& active;
};

trove::LendAccess access_of(const wire::BypassLeaseRequest& request, Rights rights) {
  if (!request.for_writing) return trove::LendAccess::kRead;
  return allows(rights, Rights::kRead) ? trove::LendAccess::kBoth : trove::LendAccess::kWrite;
}

trove::LeaseTitle title_of(const LeaseWork& work, DatafileId id, std::uint64_t counter) {
  trove::LeaseTitle title;
  title.counter = counter;
  title.datafile = id;
  title.client = work.call.peer->client;
  title.epoch = epoch_of(work.call);
  title.writable = work.request.for_writing;
  return title;
}

/// Passes the page, then the datafile. The client has both when the reply arrives.
Result<void> pass(LeaseWork& work, std::size_t index, const trove::LeasePage& page, const trove::OpenDatafile& file) {
  bmi::Network& network = work.parts.flow.network.network();
  const std::uint64_t tag = work.call.tag.value + 1 + 2 * index;
  SPATE_TRY(const UniqueFd shared, page.descriptor());
  SPATE_TRY(std::ignore, network.pass_descriptor(work.call.address, bmi::Tag(tag), shared.get()));
  return network.pass_descriptor(work.call.address, bmi::Tag(tag + 1), file.descriptor());
}

wire::GrantedLease no(std::string why) { return {0, std::move(why)}; }

job::Task<Result<wire::GrantedLease>> grant(LeaseWork& work, Target& target, std::size_t index) {
  Leases& leases = work.parts.leases;
  const DatafileKey key{target.description.id, {work.request.handle, work.request.slots[index].slot}};
  const DatafileTable::Use datafile = work.parts.datafiles.use(key);
  const ClientId client = work.call.peer->client;
  if (leases.full()) co_return no("as many leases as this server gives are held already");
  if (work.request.for_writing && datafile->no_writer_until > work.parts.executor.clock().now())
    co_return no("other clients write the datafile, too");
  DatafileLock::Hold hold;
  if (work.request.for_writing) {
    // Recalls another client's lease for writing. After that, nobody gets such a lease for a while.
    SPATE_CO_TRY(hold, co_await leases.lock(*datafile, DatafileLock::Mode::kShared, client, work.active.token()));
  } else {
    SPATE_CO_TRY(hold, co_await datafile->lock.shared(work.active.token()));
  }
  if (work.request.for_writing && datafile->no_writer_until > work.parts.executor.clock().now())
    co_return no("other clients write the datafile, too");
  SPATE_CO_TRY(std::ignore, co_await check_alive(work.parts, *datafile));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kLend;
  request.id = key.id;
  request.access = access_of(work.request, work.call.header.capability->rights);
  auto lent = co_await run_op(target, asker_of(work.call, nullptr), request, work.active.token());
  if (lent.code() == Errc::kNotFound) co_return no("nothing was ever written to the datafile");
  if (lent.code() == Errc::kNotSupported || (lent && lent->file == nullptr))
    co_return no("the target's storage has no files to be passed on");
  if (!lent) co_return std::move(lent).error();
  SPATE_CO_TRY(const auto stat,
               co_await stat_datafile(target, asker_of(work.call, nullptr), key.id, work.active.token()));
  // No await from here until the lease is entered.
  if (work.request.for_writing && datafile->gap_writers > 0) co_return no("a write through the server is under way");
  BypassLease lease;
  lease.client = client;
  lease.epoch = epoch_of(work.call);
  lease.expiry = work.call.header.capability->expiry;
  lease.key = key;
  lease.target = &target;
  auto page = target.device.storage().store().make_lease(title_of(work, key.id, stat.change_counter));
  if (!page) co_return no(page.error().message());
  const auto passed = pass(work, index, **page, *lent->file);
  if (!passed) co_return no(passed.error().message());
  lease.page = *std::move(page);
  co_return wire::GrantedLease{leases.add(std::move(lease)), {}};
}

}  // namespace

job::Task<Result<wire::BypassLeaseReply>> IoService::bypass_lease(rpc::Call& call, wire::BypassLeaseRequest request) {
  const Rights rights = request.for_writing ? Rights::kWrite : Rights::kRead;
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.handle, rights, CapabilityNeed::kRequired));
  if (caller == nullptr || !call.header.capability)
    co_return Error::told(Errc::kInvalidArgument, "leases are for clients");
  if (request.slots.size() > wire::kMaxLeaseSlots)
    co_return Error::told(Errc::kInvalidArgument, "at most 16 slots a lease request");
  if (!request.handle) co_return Error::told(Errc::kInvalidArgument, "a request needs a handle");
  SPATE_CO_TRY(const std::vector<Place> places, find_places(*parts_, call, request.slots));
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  wire::BypassLeaseReply reply;
  if (auto refusal = bypass_refusal(*parts_, call, request.for_writing)) {
    reply.leases.assign(places.size(), no(*std::move(refusal)));
    co_return reply;
  }
  LeaseWork work{*parts_, call, request, active};
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].term != nullptr) {
      reply.leases.push_back(no("other servers have copies of the datafile, which change with it"));
      continue;
    }
    auto granted = co_await grant(work, *places[i].target, i);
    if (!granted) co_return explain(std::move(granted).error(), active, caller);
    reply.leases.push_back(*std::move(granted));
  }
  co_return reply;
}

job::Task<Result<wire::BypassReturnReply>> IoService::bypass_return(rpc::Call& call,
                                                                    wire::BypassReturnRequest request) {
  SPATE_CO_TRY(ClientTable::Entry* const caller, find_caller(*parts_, call));
  if (caller == nullptr) co_return Error::told(Errc::kInvalidArgument, "leases are for clients");
  if (request.leases.size() > wire::kMaxReturned)
    co_return Error::told(Errc::kInvalidArgument, "at most 4096 leases a request");
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  for (const wire::ReturnedLease& returned : request.leases) {
    if (parts_->leases.find(returned.lease_id, caller->client) == nullptr) continue;
    parts_->counters.moved(flow::Lane::kBypass, flow::Direction::kRead, returned.read_bytes);
    parts_->counters.moved(flow::Lane::kBypass, flow::Direction::kWrite, returned.written_bytes);
    // Not finish(): the lease page shows whether the client is really done.
    SPATE_CO_TRY(std::ignore,
                 co_await parts_->leases.recall(returned.lease_id, parts_->leases.deadline(), active.token()));
  }
  co_return wire::Empty();
}

}  // namespace spate::io
