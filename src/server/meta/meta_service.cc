// SPDX-License-Identifier: Apache-2.0
#include "server/meta/meta_service.h"

#include "base/units.h"
#include "log/fields.h"
#include "log/log.h"
#include "server/meta/check/check.h"
#include "server/meta/names/operations.h"
#include "server/meta/session/session_events.h"
#include "wire/cluster_messages.h"
#include "wire/xattr_messages.h"

namespace spate::meta {

namespace {

/// The text for the audit log; empty if the request only lists.
std::string deed_of(const std::vector<Revocation>& keys) {
  std::string deed;
  for (const Revocation& key : keys) deed += (deed.empty() ? "revoke keys " : ", ") + text_of(key.id);
  return deed;
}

Result<std::vector<Revocation>> revocations_of(const wire::RevokeKeysRequest& request) {
  const std::size_t count = request.keys.size() - (request.has_ends() ? 1 : 0);
  if (count > wire::kMaxRevoked) return Error::told(Errc::kInvalidArgument, "too many keys at once");
  if (request.has_ends() && count == 0) return Error::told(Errc::kInvalidArgument, "a key id of zeros is not valid");
  if (request.has_ends() && request.ends.size() != count)
    return Error::told(Errc::kInvalidArgument, "the request must give an expiry for each key");
  std::vector<Revocation> keys;
  for (std::size_t i = 0; i < count; ++i)
    keys.push_back({request.keys[i], request.has_ends() ? request.ends[i] : WallTime()});
  return keys;
}

/// Whether the peer is this server, by what it has said in its handshake.
bool is_itself(const rpc::Call& call, ServerId server) { return call.peer->server == server; }

Error another_server() { return Error::told(Errc::kNotPermitted, "an io server asks this for itself only"); }

}  // namespace

void MetaService::fill_table() {
  constexpr auto kReaders = rpc::Access::kReaders;
#define SPATE_SERVE_READ(id, number, name, callers) read<wire::id##Request, &name>(rpc::Access::callers);
  SPATE_META_READS(SPATE_SERVE_READ)
#undef SPATE_SERVE_READ
#define SPATE_SERVE_CHANGE(id, number, name, callers) change<wire::id##Request, &name>(rpc::Access::callers);
  SPATE_META_CHANGES(SPATE_SERVE_CHANGE)
#undef SPATE_SERVE_CHANGE
  serve_encoded(wire::Op::kMetaRepair, rpc::Access::kServersOnly,
                [core = &core_](rpc::Call& call, ByteView body) { return meta_repair(*core, call, body); });
  serve(kReaders, this, &MetaService::keep_alive);
  serve(kReaders, this, &MetaService::end_session);
  serve(kReaders, this, &MetaService::lock_row<wire::LockRequest, wire::LockReply, &LockManager::lock>);
  serve(kReaders, this, &MetaService::lock_row<wire::LockTestRequest, wire::LockTestReply, &LockManager::test>);
  serve(kReaders, this, &MetaService::lock_row<wire::LockCancelRequest, wire::LockCancelReply, &LockManager::cancel>);
  serve(kReaders, this, &MetaService::fetch_events);
  serve(kReaders, this,
        &MetaService::lock_row<wire::LockReclaimRequest, wire::LockReclaimReply, &LockManager::reclaim>);
  serve(rpc::Access::kOperators, this, &MetaService::revoke_keys);
  serve(rpc::Access::kServersOnly, this, &MetaService::reserve_server);
  serve(rpc::Access::kServersOnly, this, &MetaService::join_server);
  serve(rpc::Access::kServersOnly, this, &MetaService::list_fences);
  serve(rpc::Access::kServersOnly, this, &MetaService::change_group);
}

job::Task<Result<wire::SessionEventsReply>> MetaService::fetch_events(rpc::Call& call,
                                                                      wire::SessionEventsRequest request) {
  SessionEvents* const events = core_.parts().events;
  if (events == nullptr) co_return Error::told(Errc::kNotSupported, "this server keeps no locks");
  auto reply = co_await events->fetch(call, std::move(request));
  co_return reply;
}

job::Task<Result<wire::ReserveServerReply>> MetaService::reserve_server(rpc::Call& call,
                                                                        wire::ReserveServerRequest /*request*/) {
  wire::ReserveServerReply reply;
  call.deed = "take a number for a new server";
  SPATE_CO_TRY(reply.server, co_await core_.membership().reserve(call.stop));
  call.deed += ": " + std::to_string(reply.server.value);
  reply.config = to_bytes(as_bytes(core_.options().config_text));
  co_return reply;
}

job::Task<Result<wire::JoinServerReply>> MetaService::join_server(rpc::Call& call, wire::JoinServerRequest request) {
  // A server of an earlier version does not say who it is.
  if (call.peer->server && !is_itself(call, request.server)) co_return another_server();
  const bool mirrors = (call.peer->features & wire::kFeatureMirrors) != 0;
  if (!mirrors) core_.group_servers().note(request.server, false);
  const std::uint64_t before = core_.membership().map().version;
  ServerEntry server;
  server.id = request.server;
  server.urls = std::move(request.urls);
  if (request.has_rack()) {
    request.targets.pop_back();
    server.rack = std::move(request.rack);
  }
  server.targets = std::move(request.targets);
  SPATE_CO_TRY(std::ignore, co_await core_.membership().join(std::move(server), call.stop));
  wire::JoinServerReply reply;
  reply.map_version = core_.membership().map().version;
  if (reply.map_version != before)  // a server joins at each start, mostly with nothing new
    call.deed = "server " + std::to_string(request.server.value) + " joins, or has other targets or addresses";
  co_return reply;
}

job::Task<Result<wire::ChangeGroupReply>> MetaService::change_group(rpc::Call& call, wire::ChangeGroupRequest request) {
  if (!is_itself(call, request.by ? server_of(request.by) : ServerId())) co_return another_server();
  const DataGroup* const known = core_.data_groups().find(request.next.id);
  if (!request.by && known != nullptr && known->epoch == request.from_epoch) {
    SPATE_CO_TRY(std::ignore, core_.group_servers().check_gone(*known));
    call.deed = "let an older copy lead group " + std::to_string(known->id.value) + ", in which server " +
                std::to_string(server_of(known->primary).value) + " led";
  }
  if (known != nullptr && known->epoch == request.from_epoch && !same_targets(*known, request.next)) {
    SPATE_CO_TRY(std::ignore, core_.group_servers().check_replacement(core_.membership().map(), request.next,
                                                                      core_.data_groups().servers()));
  }
  auto reply = co_await core_.data_groups().change(std::move(request));
  co_return reply;
}

job::Task<Result<wire::RevokeKeysReply>> MetaService::revoke_keys(rpc::Call& call, wire::RevokeKeysRequest request) {
  SPATE_CO_TRY(std::ignore, core_.parts().sessions->admit(call));
  SPATE_CO_TRY(const std::vector<Revocation> keys, revocations_of(request));
  call.deed = deed_of(keys);
  if (!keys.empty()) {
    SPATE_CO_TRY(std::ignore, core_.check_copies(call));
  }
  SPATE_CO_TRY(std::ignore, co_await core_.revoked_keys().add(keys, call.stop));
  for (const Revocation& key : keys) {
    SPATE_LOG("server/meta", info, "user key revoked key={} until={} by_client={} by_uid={} description={}",
              text_of(key.id), log::Quoted{key.until.ns == 0 ? "ever" : format_time(key.until)}, call.header.client,
              call.peer->credential.uid, log::Quoted{call.peer->description});
    core_.parts().sessions->end_sessions_of(key.id);
  }
  wire::RevokeKeysReply reply;
  reply.revoked = core_.revoked_keys().list();
  co_return reply;
}

/// A server that joins before it asks misses no fence, since later ones are sent to it.
job::Task<Result<wire::ListFencesReply>> MetaService::list_fences(rpc::Call& /*call*/,
                                                                  wire::ListFencesRequest request) {
  co_return core_.parts().sessions->fences(request.after);
}

}  // namespace spate::meta
