// SPDX-License-Identifier: Apache-2.0
#include "server/meta/meta_service.h"

#include "server/meta/check/check.h"
#include "server/meta/names/operations.h"
#include "server/meta/session/session_events.h"

namespace spate::meta {

MetaService::MetaService(MetaOptions options, job::KeyvalContext& store, Random& random, metrics::Registry& metrics,
                         MetaParts parts)
    : core_(std::move(options), store, random, metrics) {
  core_.attach(parts);
  fill_table();
}

void MetaService::fill_table() {
  read<wire::LookupRequest, &lookup>();
  read<wire::AccessRequest, &access>();
  read<wire::LookupLeaseRequest, &lookup_lease>();
  read<wire::GetattrRequest, &getattr>();
  read<wire::ReaddirRequest, &readdir>();
  read<wire::ListLeaseRequest, &list_lease>();
  read<wire::GetxattrRequest, &getxattr>();
  read<wire::ListxattrRequest, &listxattr>();
  read<wire::MetaStatfsRequest, &meta_statfs>();
  read<wire::MetaSyncRequest, &meta_sync>();
  read<wire::ClusterMapRequest, &cluster_map>();
  change<wire::SetattrRequest, &setattr>();
  change<wire::CreateRequest, &create>();
  change<wire::OpenRequest, &open>();
  change<wire::CloseRequest, &close>();
  change<wire::CloseWritersRequest, &close_writers>();
  change<wire::TruncateRequest, &truncate>();
  change<wire::MkdirRequest, &mkdir>();
  change<wire::SymlinkRequest, &symlink>();
  change<wire::LinkRequest, &link>();
  change<wire::UnlinkRequest, &unlink>();
  change<wire::RmdirRequest, &rmdir>();
  change<wire::RenameRequest, &rename>();
  change<wire::ChangeBatchRequest, &change_batch>();
  change<wire::SetxattrRequest, &setxattr>();
  change<wire::RemovexattrRequest, &removexattr>();
  read<wire::MetaScanRequest, &meta_scan>(rpc::Access::kServersOnly);
  read<wire::MetaJudgeRequest, &meta_judge>(rpc::Access::kServersOnly);
  serve_encoded(wire::Op::kMetaRepair, rpc::Access::kServersOnly,
                [core = &core_](rpc::Call& call, ByteView body) { return meta_repair(*core, call, body); });
  serve(rpc::Access::kAuthenticated, this, &MetaService::keep_alive);
  serve(rpc::Access::kAuthenticated, this, &MetaService::end_session);
  constexpr auto kAccess = rpc::Access::kAuthenticated;
  serve(kAccess, this, &MetaService::lock_row<wire::LockRequest, wire::LockReply, &Locks::lock>);
  serve(kAccess, this, &MetaService::lock_row<wire::LockTestRequest, wire::LockTestReply, &Locks::test>);
  serve(kAccess, this, &MetaService::lock_row<wire::LockCancelRequest, wire::LockCancelReply, &Locks::cancel>);
  serve(kAccess, this, &MetaService::fetch_events);
  serve(kAccess, this, &MetaService::lock_row<wire::LockReclaimRequest, wire::LockReclaimReply, &Locks::reclaim>);
  serve(rpc::Access::kServersOnly, this, &MetaService::reserve_server);
  serve(rpc::Access::kServersOnly, this, &MetaService::join_server);
  serve(rpc::Access::kServersOnly, this, &MetaService::list_fences);
}

job::Task<Result<wire::LockEventsReply>> MetaService::fetch_events(rpc::Call& call, wire::LockEventsRequest request) {
  SessionEvents* const events = core_.parts().events;
  if (events == nullptr) co_return Error::told(Errc::kNotSupported, "this server keeps no locks");
  auto reply = co_await events->fetch(call, std::move(request));
  co_return reply;
}

job::Task<Result<wire::ReserveServerReply>> MetaService::reserve_server(rpc::Call& call,
                                                                        wire::ReserveServerRequest /*request*/) {
  wire::ReserveServerReply reply;
  SPATE_CO_TRY(reply.server, co_await core_.membership().reserve(call.stop));
  reply.config = to_bytes(as_bytes(core_.options().config_text));
  co_return reply;
}

job::Task<Result<wire::JoinServerReply>> MetaService::join_server(rpc::Call& call, wire::JoinServerRequest request) {
  ServerEntry server;
  server.id = request.server;
  server.urls = std::move(request.urls);
  server.targets = std::move(request.targets);
  SPATE_CO_TRY(std::ignore, co_await core_.membership().join(std::move(server), call.stop));
  wire::JoinServerReply reply;
  reply.map_version = core_.membership().map().version;
  co_return reply;
}

/// A server that joins before it asks misses no fence, since later ones are sent to it.
job::Task<Result<wire::ListFencesReply>> MetaService::list_fences(rpc::Call& /*call*/,
                                                                  wire::ListFencesRequest request) {
  co_return core_.parts().sessions->fences(request.after);
}

}  // namespace spate::meta
