// SPDX-License-Identifier: Apache-2.0
#include "server/meta/background/io_servers.h"

#include <algorithm>
#include <set>
#include <span>

#include "dist/registry.h"
#include "job/gate.h"

namespace spate::meta {
namespace {

/// Most slots of one request: the reply has 32 bytes for each, the request 16.
constexpr std::size_t kSlotsAtOnce = 1024;
constexpr std::size_t kRemovalsAtOnce = 2048;
constexpr std::size_t kStateBytes = 32;

job::Task<void> into(job::Task<Result<void>> task, Result<void>& outcome) { outcome = co_await std::move(task); }

/// Runs all tasks at once and waits for all of them; yields the result of each.
job::Task<std::vector<Result<void>>> run_all(job::Executor& executor, std::vector<job::Task<Result<void>>> tasks) {
  std::vector<Result<void>> outcomes(tasks.size());
  job::Gate gate(executor);
  for (std::size_t i = 0; i < tasks.size(); ++i) job::spawn(gate, into(std::move(tasks[i]), outcomes[i]));
  co_await gate.close();
  co_return outcomes;
}

/// kFileTooBig comes first, because no further attempt helps. Then come servers without an answer: they may still carry
/// out the request, so it goes on although others refuse it.
Result<void> first_failure(const std::vector<Result<void>>& outcomes) {
  for (const Result<void>& outcome : outcomes) {
    if (outcome.code() == Errc::kFileTooBig) return outcome.error();
  }
  for (const Result<void>& outcome : outcomes) {
    if (!outcome && !is_refusal(outcome.code())) return outcome.error();
  }
  for (const Result<void>& outcome : outcomes) {
    if (!outcome) return outcome.error();
  }
  return {};
}

/// Adds the server's name to an error that the server has answered.
Error named(Error error, const rpc::Channel& channel) {
  if (error.context().find(channel.name()) != std::string::npos) return error;
  return std::move(error).within(channel.name());
}

/// Returns where to cut the datafiles, near the middle, so that no file is cut. They are in the order of their files.
/// 0: all of them belong to one file.
std::size_t file_boundary(std::span<const wire::DatafileRef> datafiles) {
  const std::size_t middle = datafiles.size() / 2;
  for (std::size_t at = middle; at > 0; --at) {
    if (datafiles[at].handle != datafiles[at - 1].handle) return at;
  }
  for (std::size_t at = middle + 1; at < datafiles.size(); ++at) {
    if (datafiles[at].handle != datafiles[at - 1].handle) return at;
  }
  return 0;
}

}  // namespace

bool is_refusal(Errc code) {
  switch (code) {
    case Errc::kUnknown:
    case Errc::kCancelled:
    case Errc::kTimeout:
    case Errc::kBusy:
    case Errc::kTryAgain:
    case Errc::kConflict:
    case Errc::kNotPrimary:
    case Errc::kUnreachable:
    case Errc::kConnectionLost:
    case Errc::kProtocol:
    case Errc::kVersionMismatch:
    case Errc::kWrongFileSystem:
    case Errc::kUnauthenticated: return false;
    default: return true;
  }
}

/// Marks a file while a server has not answered a request about it.
class ChannelIoServers::Asking {
 public:
  Asking(ChannelIoServers& servers, Handle handle, const rpc::Channel* channel)
      : servers_(servers), at_(servers.asked_.emplace(handle, channel)) {}
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking() { servers_.asked_.erase(at_); }

 private:
  ChannelIoServers& servers_;
  std::multimap<Handle, const rpc::Channel*>::iterator at_;
};

std::string ChannelIoServers::unanswered(Handle handle) const {
  const auto [begin, end] = asked_.equal_range(handle);
  return begin == end ? std::string() : begin->second->name();
}

ChannelIoServers::ChannelIoServers(IoServersOptions options, job::NetworkContext& network, Random& random)
    : options_(std::move(options)), network_(network), executor_(network.executor()), random_(random) {
  identity_.kind = wire::PeerKind::kServer;
  identity_.fs = options_.map.fs;
  identity_.key = options_.server_key;
  identity_.policy = options_.handshake;
  identity_.description = options_.description;
  for (const ServerEntry& server : std::vector(options_.map.servers)) server_added(server);
}

void ChannelIoServers::server_added(const ServerEntry& server) {
  if (!server.roles.io) return;
  const auto added = options_.map.add(server);
  SPATE_CHECK(added.has_value());  // the roles of a server never change
  if (channels_.contains(server.id)) return;
  rpc::ChannelOptions channel;
  channel.urls = server.urls;
  channel.server = server.id;
  channels_.emplace(server.id, std::make_unique<rpc::Channel>(std::move(channel), network_, identity_, random_));
}

rpc::CallOptions ChannelIoServers::call_options(job::StopToken stop, std::size_t reply_bytes) const {
  rpc::CallOptions options;
  options.deadline = executor_.now() + options_.deadline;
  options.stop = stop;
  options.priority = wire::Priority::kControl;
  options.reply_room = static_cast<std::uint32_t>(4096 + reply_bytes);
  return options;
}

/// Every target of every slot, grouped by server.
Result<std::vector<ChannelIoServers::Share>> ChannelIoServers::shares_of(const Layout& layout) {
  std::vector<Share> shares;
  for (std::uint32_t slot = 0; slot < layout.slots.size(); ++slot) {
    for (const TargetId target : layout.slots[slot].targets) {
      SPATE_TRY(rpc::Channel* const channel, channel_of(target));
      const TargetId group = is_group(target) ? target : TargetId();
      const auto has_room = [channel, group](const Share& s) {
        return s.channel == channel && s.group == group && s.slots.size() < kSlotsAtOnce;
      };
      auto share = std::find_if(shares.begin(), shares.end(), has_room);
      if (share == shares.end()) {
        shares.emplace_back();
        share = shares.end() - 1;
        share->channel = channel;
        share->group = group;
      }
      share->slots.push_back({slot, target});
    }
  }
  return shares;
}

/// The state of all datafiles together. The most advanced replica of a slot counts.
struct ChannelIoServers::Gathered {
  explicit Gathered(const Layout& layout) : slots(layout.slots.size()) {}
  void add(const Share& share) {
    for (std::size_t i = 0; i < share.slots.size(); ++i) {
      wire::DatafileState& slot = slots[share.slots[i].slot];
      if (wire::not_older(share.states[i], slot)) slot = share.states[i];
    }
  }
  Result<wire::DataSummary> summary(const Layout& layout) const {
    SPATE_TRY(const auto distribution, make_distribution(layout));
    wire::DataSummary sum;
    std::vector<std::uint64_t> sizes;
    for (const wire::DatafileState& slot : slots) {
      sizes.push_back(slot.size);
      sum.allocated_bytes += slot.allocated_bytes;
      sum.mtime = std::max(sum.mtime, slot.mtime);
      sum.change_sum += slot.change_counter;
    }
    sum.size = distribution->logical_size(sizes);
    return sum;
  }
  std::vector<wire::DatafileState> slots;
};

job::Task<Result<void>> ChannelIoServers::stat_share(Handle handle, Share& share, job::StopToken stop) {
  wire::DatafileStatRequest request;
  request.handle = handle;
  request.slots = share.slots;
  const rpc::CallOptions options = call_options(stop, kStateBytes * share.slots.size());
  const Asking asking(*this, handle, share.channel);
  auto reply = co_await share.channel->call<wire::DatafileStatReply>(request, options);
  if (!reply) co_return named(std::move(reply).error(), *share.channel);
  if (reply->datafiles.size() != share.slots.size()) co_return Error(Errc::kProtocol, share.channel->name());
  share.states = std::move(reply->datafiles);
  co_return {};
}

job::Task<Result<wire::DataSummary>> ChannelIoServers::stat(Handle handle, Layout layout, job::StopToken stop) {
  SPATE_CO_TRY(std::vector<Share> shares, shares_of(layout));
  std::vector<job::Task<Result<void>>> tasks;
  for (Share& share : shares) {
    const auto once = [this, handle](Share& s, job::StopToken token) { return stat_share(handle, s, token); };
    tasks.push_back(at_primary(share, once, stop));
  }
  const auto outcomes = co_await run_all(executor_, std::move(tasks));
  SPATE_CO_TRY(std::ignore, first_failure(outcomes));
  Gathered gathered(layout);
  for (const Share& share : shares) gathered.add(share);
  co_return gathered.summary(layout);
}

job::Task<Result<void>> ChannelIoServers::truncate_share(Handle handle, const TruncateIntent& intent, Share& share,
                                                         job::StopToken stop) {
  wire::DatafileTruncateRequest request;
  request.handle = handle;
  request.slots = share.slots;
  request.sizes = share.sizes;
  request.truncate_generation = intent.generation;
  request.fs_time = intent.when;
  rpc::CallOptions options = call_options(stop, kStateBytes * share.slots.size());
  options.trace = intent.trace;
  const Asking asking(*this, handle, share.channel);
  auto reply = co_await share.channel->call<wire::DatafileTruncateReply>(request, options);
  if (!reply) co_return named(std::move(reply).error(), *share.channel);
  if (reply->datafiles.size() != share.slots.size()) co_return Error(Errc::kProtocol, share.channel->name());
  share.states = std::move(reply->datafiles);
  co_return {};
}

job::Task<Result<wire::DataSummary>> ChannelIoServers::truncate(Handle handle, TruncateIntent intent,
                                                                job::StopToken stop) {
  SPATE_CO_TRY(std::vector<Share> shares, shares_of(intent.layout));
  SPATE_CO_TRY(const auto distribution, make_distribution(intent.layout));
  std::vector<job::Task<Result<void>>> tasks;
  for (Share& share : shares) {
    for (const wire::SlotRef& ref : share.slots)
      share.sizes.push_back(distribution->physical_size(ref.slot, intent.size));
    const auto once = [this, handle, &intent](Share& s, job::StopToken token) {
      return truncate_share(handle, intent, s, token);
    };
    tasks.push_back(at_primary(share, once, stop));
  }
  const auto outcomes = co_await run_all(executor_, std::move(tasks));
  SPATE_CO_TRY(std::ignore, first_failure(outcomes));
  Gathered gathered(intent.layout);
  for (const Share& share : shares) gathered.add(share);
  co_return gathered.summary(intent.layout);
}

/// The datafiles on one server that are to be removed, in the order of their files.
struct ChannelIoServers::RemoveShare {
  rpc::Channel* channel = nullptr;
  TargetId group;  // 0: the datafiles lie on targets of the server
  WallTime tombstone_until;
  std::vector<wire::DatafileRef> datafiles;
  std::set<Handle> refused;  // files with a datafile that the server cannot remove
  Result<void> failure;      // the first failure
};

/// Fails if the server does not answer. If it refuses a request, the halves of that request are tried, until the files
/// that it refuses are known. That is rare, and a repeated removal is harmless.
job::Task<Result<void>> ChannelIoServers::remove_share(RemoveShare& share, job::StopToken stop) {
  using Refs = std::span<const wire::DatafileRef>;
  std::vector<Refs> left;
  for (Refs rest(share.datafiles); !rest.empty();) {
    left.push_back(rest.first(std::min(rest.size(), kRemovalsAtOnce)));
    rest = rest.subspan(left.back().size());
  }
  while (!left.empty()) {
    const Refs refs = left.back();
    left.pop_back();
    wire::DatafileRemoveRequest request;
    request.tombstone_until = share.tombstone_until;
    request.datafiles.assign(refs.begin(), refs.end());
    rpc::CallOptions options = call_options(stop, 0);
    options.priority = wire::Priority::kBackground;
    auto reply = co_await share.channel->call<wire::DatafileRemoveReply>(request, options);
    if (reply) continue;
    const bool answered = is_refusal(reply.code()) || reply.code() == Errc::kTryAgain;
    if (share.failure) share.failure = named(std::move(reply).error(), *share.channel);
    if (!answered) co_return share.failure;
    const std::size_t half = file_boundary(refs);
    if (half == 0) {
      share.refused.insert(refs.front().handle);
    } else {
      left.push_back(refs.subspan(half));
      left.push_back(refs.first(half));
    }
  }
  co_return {};
}

/// Adds the datafiles of the index-th file.
void ChannelIoServers::add_removal(const DeadFile& file, std::size_t index, RemoveOutcome& outcome,
                                   RemoveShares& shares) {
  for (std::uint32_t slot = 0; slot < file.layout.slots.size(); ++slot) {
    for (const TargetId target : file.layout.slots[slot].targets) {
      const auto channel = channel_of(target);
      if (channel) {
        const TargetId group = is_group(target) ? target : TargetId();
        RemoveShare& share = shares[{(*channel)->server(), group}];
        share.channel = *channel;
        share.group = group;
        share.datafiles.push_back({file.handle, {slot, target}});
        continue;
      }
      outcome.removed[index] = false;  // removed later, when the cluster map has the target again
      outcome.out_of_reach.push_back(target);
      if (outcome.failure) outcome.failure = channel.error();
    }
  }
}

job::Task<RemoveOutcome> ChannelIoServers::remove(std::vector<DeadFile> files, WallTime tombstone_until,
                                                  job::StopToken stop) {
  RemoveOutcome outcome;
  outcome.removed.assign(files.size(), true);
  RemoveShares shares;
  for (std::size_t i = 0; i < files.size(); ++i) add_removal(files[i], i, outcome, shares);
  std::vector<job::Task<Result<void>>> tasks;
  for (auto& [where, share] : shares) {
    share.tombstone_until = tombstone_until;
    tasks.push_back(remove_share(share, stop));
  }
  const auto outcomes = co_await run_all(executor_, std::move(tasks));
  auto reached = outcomes.begin();
  for (const auto& [where, share] : shares) {
    if (outcome.failure) outcome.failure = share.failure;
    if (!*reached++) note_failure(files, share, outcome);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (share.refused.contains(files[i].handle)) outcome.removed[i] = false;
    }
  }
  std::sort(outcome.out_of_reach.begin(), outcome.out_of_reach.end());
  outcome.out_of_reach.erase(std::unique(outcome.out_of_reach.begin(), outcome.out_of_reach.end()),
                             outcome.out_of_reach.end());
  co_return outcome;
}

/// Notes in `outcome` that the share's server did not answer.
void ChannelIoServers::note_failure(const std::vector<DeadFile>& files, const RemoveShare& share,
                                    RemoveOutcome& outcome) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const Slot& slot : files[i].layout.slots) {
      for (const TargetId target : slot.targets) {
        if (is_group(target) ? target != share.group : share.group.value != 0) continue;
        const auto its = channel_of(target);
        if (!share.group && (!its || *its != share.channel)) continue;
        outcome.removed[i] = false;
        outcome.out_of_reach.push_back(target);
      }
    }
  }
}

job::Task<Result<void>> ChannelIoServers::fence_one(rpc::Channel& channel, wire::FenceRequest request,
                                                    job::StopToken stop) {
  const rpc::CallOptions options = call_options(stop, 0);
  auto reply = co_await channel.call<wire::FenceReply>(request, options);
  if (!reply) co_return named(std::move(reply).error(), channel);
  co_return {};
}

job::Task<Result<void>> ChannelIoServers::fence(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop) {
  wire::FenceRequest request;
  request.client = client;
  request.lowest_epoch = lowest_epoch;
  std::vector<job::Task<Result<void>>> tasks;
  for (const auto& [id, channel] : channels_) tasks.push_back(fence_one(*channel, request, stop));
  const auto outcomes = co_await run_all(executor_, std::move(tasks));
  co_return first_failure(outcomes);
}

job::Task<Result<wire::UsedNumbersReply>> ChannelIoServers::used_numbers(ServerId server, job::StopToken stop) {
  const auto found = channels_.find(server);
  if (found == channels_.end()) co_return Error(Errc::kStaleMap, "no io server of this file system");
  const rpc::CallOptions options = call_options(stop, 0);
  const wire::UsedNumbersRequest request;
  auto reply = co_await found->second->call<wire::UsedNumbersReply>(request, options);
  co_return reply;
}

}  // namespace spate::meta
