// SPDX-License-Identifier: Apache-2.0
// StandInMeta: the few replies of a meta server that the client library's data path needs, from memory. For tests.
#pragma once

#include <functional>
#include <map>

#include "rpc/service.h"
#include "wire/cluster_messages.h"
#include "wire/meta_messages.h"
#include "wire/mirror_messages.h"

namespace spate::client::testing {

/// One session; files by path. Signs genuine capabilities and tickets.
class StandInMeta final : public rpc::Service {
 public:
  StandInMeta(FsId fs, Key server_key, std::vector<TargetId> targets, std::uint64_t strip_bytes, Clock& clock)
      : fs_(fs), key_(server_key), targets_(std::move(targets)), strip_bytes_(strip_bytes), clock_(clock) {
    serve(rpc::Access::kWriters, this, &StandInMeta::keep_alive);
    serve(rpc::Access::kWriters, this, &StandInMeta::end);
    serve(rpc::Access::kWriters, this, &StandInMeta::create);
    serve(rpc::Access::kWriters, this, &StandInMeta::open);
    serve(rpc::Access::kWriters, this, &StandInMeta::getattr);
    serve(rpc::Access::kWriters, this, &StandInMeta::close);
    serve(rpc::Access::kWriters, this, &StandInMeta::sync);
    serve(rpc::Access::kWriters, this, &StandInMeta::truncate);
    serve(rpc::Access::kWriters, this, &StandInMeta::mkdir);
    serve(rpc::Access::kWriters, this, &StandInMeta::data_groups);
  }

  job::Task<Result<void>> join(rpc::Peer&, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    if (request.client && std::exchange(forgets_sessions, false))
      co_return Error(Errc::kSessionUnknown, "it has ended");
    reply.client = ClientId(7);
    reply.epoch = epoch;
    reply.ticket = ticket();
    reply.answer_slots = 8;
    reply.lease_ms = lease_ms;
    co_return Result<void>();
  }

  std::optional<wire::DataSummary> closed_with;
  std::uint8_t known_open_flags = 0xFF;  // an open with others is refused
  std::vector<std::uint8_t> opens;       // the flags of all opens, also of those that were refused
  int closes = 0;
  int mkdirs = 0;
  std::uint32_t epoch = 1;
  std::uint32_t lease_ms = 60'000;
  bool forgets_sessions = false;  // once: the next resume of a session fails with kSessionUnknown
  bool loses_files = false;       // files that were created before are gone
  Errc truncate_outcome = Errc::kOk;
  Errc close_outcome = Errc::kOk;
  std::function<void(const rpc::Call&)> before_answer;  // called before the reply to a mkdir
  /// If not empty, the slots of files name these groups.
  std::map<TargetId, DataGroup> groups;
  int group_questions = 0;
  /// If set, the next capability that is given out has already expired.
  bool expired_next = false;

 private:
  SessionTicket ticket() const {
    SessionTicket t;
    t.client = ClientId(7);
    t.epoch = epoch;
    t.expiry = WallTime{clock_.wall().ns + 3'600'000'000'000};
    t.mac = sign(key_, fs_, t);
    return t;
  }
  wire::OpenReply opened(Handle handle, bool created) {
    wire::OpenReply reply;
    reply.object.attributes.handle = handle;
    reply.object.attributes.size_known = false;
    reply.object.attributes.link_count = 1;
    reply.object.layout.emplace();
    reply.object.layout->strip_bytes = strip_bytes_;
    if (!groups.empty()) reply.object.layout->redundancy = Redundancy::kMirror;
    for (const TargetId target : targets_) reply.object.layout->slots.push_back(Slot{{target}});
    reply.created = created;
    reply.capability.handle = handle;
    reply.capability.rights = Rights::kReadWrite;
    reply.capability.client = ClientId(7);
    reply.capability.session_epoch = epoch;
    const std::int64_t life = std::exchange(expired_next, false) ? -1'000'000'000 : 600'000'000'000;
    reply.capability.expiry = WallTime{clock_.wall().ns + life};
    reply.capability.mac = sign(key_, fs_, reply.capability);
    return reply;
  }
  job::Task<Result<wire::KeepAliveReply>> keep_alive(rpc::Call& call, wire::KeepAliveRequest) {
    if (call.header.session_epoch != epoch) co_return Error(Errc::kSessionFenced, "it has run out");
    wire::KeepAliveReply reply;
    reply.ticket = ticket();
    co_return reply;
  }
  job::Task<Result<wire::EndSessionReply>> end(rpc::Call&, wire::EndSessionRequest) {
    co_return wire::EndSessionReply();
  }
  job::Task<Result<wire::CreateReply>> create(rpc::Call&, wire::CreateRequest request) {
    const auto [it, fresh] = files_.try_emplace(request.where.path, Handle(100 + files_.size()));
    co_return opened(it->second, fresh);
  }
  job::Task<Result<wire::OpenReply>> open(rpc::Call&, wire::OpenRequest request) {
    opens.push_back(request.open_flags);
    if ((request.open_flags & ~known_open_flags) != 0) co_return Error(Errc::kInvalidArgument, "unknown open flags");
    if (request.where.path.empty()) co_return opened(request.where.start, false);
    const auto it = files_.find(request.where.path);
    if (it == files_.end()) co_return Error(Errc::kNotFound, request.where.path);
    auto reply = opened(it->second, false);
    reply.truncated = (request.open_flags & wire::kOpenTruncate) != 0;
    co_return reply;
  }
  job::Task<Result<wire::TruncateReply>> truncate(rpc::Call&, wire::TruncateRequest request) {
    if (truncate_outcome != Errc::kOk) co_return Error(truncate_outcome, "as ordered");
    co_return opened(request.where.start, false).object;
  }
  job::Task<Result<wire::MkdirReply>> mkdir(rpc::Call& call, wire::MkdirRequest) {
    ++mkdirs;
    if (before_answer) before_answer(call);
    co_return wire::MkdirReply();
  }
  job::Task<Result<wire::GetattrReply>> getattr(rpc::Call&, wire::GetattrRequest request) {
    if (loses_files) co_return Error(Errc::kStaleHandle, "it was never made");
    co_return opened(request.handle, false).object;
  }
  job::Task<Result<wire::CloseReply>> close(rpc::Call&, wire::CloseRequest request) {
    ++closes;
    closed_with = request.data;
    if (close_outcome != Errc::kOk) co_return Error(close_outcome, "as ordered");
    co_return opened(request.handle, false).object;
  }
  job::Task<Result<wire::DataGroupsReply>> data_groups(rpc::Call&, wire::DataGroupsRequest request) {
    ++group_questions;
    wire::DataGroupsReply reply;
    for (const TargetId group : request.groups) reply.groups.push_back(groups.at(group));
    co_return reply;
  }
  job::Task<Result<wire::MetaSyncReply>> sync(rpc::Call&, wire::MetaSyncRequest) { co_return wire::MetaSyncReply(); }

  FsId fs_;
  Key key_;
  std::vector<TargetId> targets_;
  std::uint64_t strip_bytes_;
  Clock& clock_;
  std::map<std::string, Handle> files_;
};

}  // namespace spate::client::testing
