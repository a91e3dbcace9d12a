// SPDX-License-Identifier: Apache-2.0
// For tests of the name space: stand-ins for io servers, sessions and opens.
#pragma once

#include <map>
#include <set>

#include "server/meta/core/core.h"
#include "server/meta/names/sizes.h"

namespace spate::meta {

class FakeIo final : public IoServers {
 public:
  job::Task<Result<wire::DataSummary>> stat(Handle, Layout, job::StopToken) override {
    ++stats;
    co_return data;
  }
  job::Task<Result<wire::DataSummary>> truncate(Handle, TruncateIntent, job::StopToken) override { co_return data; }
  job::Task<RemoveOutcome> remove(std::vector<DeadFile> files, WallTime, job::StopToken) override {
    co_return RemoveOutcome{std::vector<bool>(files.size(), true), {}, {}};
  }
  job::Task<Result<void>> fence(ClientId, std::uint32_t, job::StopToken) override { co_return {}; }
  void server_added(const ServerEntry& server) override { added.push_back(server); }
  wire::DataSummary data;
  int stats = 0;
  std::vector<ServerEntry> added;
};

class FakeSessions final : public Sessions {
 public:
  job::Task<Result<void>> join(rpc::Peer&, const wire::AuthenticateRequest&, wire::AuthenticateReply&) override {
    co_return {};
  }
  Result<void> admit(const rpc::Call& call) override {
    return call.header.client == fenced ? Result<void>(Errc::kSessionFenced) : Result<void>();
  }
  Result<void> check(const rpc::Call& call) const override {
    return call.header.client == fenced ? Result<void>(Errc::kSessionFenced) : Result<void>();
  }
  job::Task<Result<wire::KeepAliveReply>> keep_alive(rpc::Call&, wire::KeepAliveRequest) override {
    co_return wire::KeepAliveReply();
  }
  job::Task<Result<wire::EndSessionReply>> end(rpc::Call&, wire::EndSessionRequest) override {
    co_return wire::EndSessionReply();
  }
  std::uint64_t count() const override { return 3; }
  ClientId fenced;
};

class FakeOpens final : public Opens {
 public:
  job::Task<Result<Capability>> add(Operation& operation, InodeRecord& inode, std::uint8_t flags, bool) override {
    const bool writes = (flags & wire::kOpenWrite) != 0;
    begun.insert(inode.handle());
    if (writes) begin_write(inode);
    inode.attributes.size_known = inode.write_opens == 0;
    OpenRecord record;
    record.readers = writes ? 0 : 1;
    record.writers = writes ? 1 : 0;
    operation.put(open_key(inode.handle(), operation.call().header.client, 1), record);
    Capability capability;
    capability.handle = inode.handle();
    capability.rights = static_cast<Rights>(flags & 3U);
    co_return capability;
  }
  job::Task<Result<wire::OpenReply>> open_existing(Operation& operation, InodeRecord inode,
                                                   std::uint8_t flags) override {
    wire::OpenReply reply;
    SPATE_CO_TRY(reply.capability, co_await add(operation, inode, flags, false));
    if ((flags & wire::kOpenWrite) != 0) operation.put(inode);
    reply.object.attributes = inode.attributes;
    co_return reply;
  }
  job::Task<Result<wire::OpenReply>> renew(Operation& operation, InodeRecord inode, std::uint8_t flags) override {
    return open_existing(operation, std::move(inode), flags);
  }
  job::Task<Result<void>> drop(Operation& operation, Handle handle, Rights) override {
    operation.erase(open_key(handle, operation.call().header.client, 1));
    co_return {};
  }
  bool may_be_open(Handle handle) const override { return begun.contains(handle); }

  std::set<Handle> begun;  // opens of these
};

class FakeRemovals final : public Removals {
 public:
  void added(Handle handle) override { handles.push_back(handle); }
  std::uint64_t pending() const override { return handles.size(); }
  std::vector<Handle> handles;
};

class FakeIntentRecovery final : public IntentRecovery {
 public:
  void added(Handle, TraceId) override {}
  job::Task<Result<void>> settled(Handle, job::StopToken) override { co_return {}; }
  job::Task<Result<void>> truncated(Handle, job::StopToken) override { co_return {}; }
  job::Task<Result<void>> truncated_for(ClientId, std::uint32_t, job::StopToken) override { co_return {}; }
};

struct FakeParts {
  FakeIo io;
  FakeSessions sessions;
  FakeOpens opens;
  FakeRemovals removals;
  FakeIntentRecovery intent_recovery;
  /// `answers` outlives the parts.
  MetaParts parts(AnswerTable& answers) { return {&io, &sessions, &answers, &opens, &removals, &intent_recovery}; }
};

}  // namespace spate::meta
