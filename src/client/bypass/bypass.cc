// SPDX-License-Identifier: Apache-2.0
#include "client/bypass/bypass.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/session/session.h"

namespace spate::client {
namespace {

constexpr Duration kReturnTimeout = std::chrono::seconds(1);
constexpr std::uint64_t kUngathered = 64;  // guess: until it is known whether writes can be gathered, some are not
/// A new file of up to so many times `after_bytes` costs more with a lease than without (docs/data-paths.md, "Bypass").
constexpr std::uint64_t kSmallFile = 8;
constexpr std::uint64_t kBetweenLooks = 1U << 20U;  // bytes written between two looks at the device's room

/// Learns the tag of the request. The descriptors come under the tags that follow this tag.
class TagWatch final : public rpc::Bulk {
 public:
  void post(bmi::Address its_peer, bmi::Tag reply_tag, const std::shared_ptr<wire::BulkSeals>& /*seals*/) override {
    peer = its_peer;
    tag = reply_tag.value;
  }
  job::Task<void> abandon() override { co_return; }
  bmi::Address peer;
  std::uint64_t tag = 0;
};

}  // namespace

Bypass::Bypass(Session& session, LeasedFiles& leased_files, About about)
    : session_(session), leased_files_(leased_files), about_(about), turn_(session.executor(), 1) {}

Bypass::HeldPtr Bypass::find(std::uint32_t slot, bool for_writing) {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) return nullptr;
  for (HeldPtr SlotLeases::* const kind : {&SlotLeases::writer, &SlotLeases::reader}) {
    const HeldPtr held = found->second.*kind;
    if (held == nullptr || (for_writing ? !held->writable : !held->file->readable())) continue;
    if (held->granted()) return held;
    let_go(slot, held);
  }
  return nullptr;
}

void Bypass::let_go(std::uint32_t slot, const HeldPtr& held) {
  const HeldPtr keep = held;
  SlotLeases& entry = slots_[slot];
  if (entry.writer == keep) entry.writer = nullptr;
  if (entry.reader == keep) entry.reader = nullptr;
}

bool Bypass::holds(const BypassParams& params) {
  if (slots_.empty()) return false;
  return std::all_of(params.slots.begin(), params.slots.end(),
                     [&](const wire::SlotRef& ref) { return find(ref.slot, params.for_writing) != nullptr; });
}

bool Bypass::considers(const BypassParams& params) {
  if (params.path == wire::DataPath::kBypass) return true;
  const BypassMode mode = session_.options().bypass;
  if (params.path != wire::DataPath::kAutomatic || mode == BypassMode::kOff) return false;
  if (params.for_writing && mode != BypassMode::kWrite) return false;
  return holds(params) || (!asking_ && worth_it(params));
}

/// After this client has written a file by itself, it gathers no more writes of the file. So only large writes ask for
/// a lease to write such a file, and many small ones that could not be gathered.
bool Bypass::enough(const BypassParams& params) const {
  const BypassOptions& when = session_.options().bypass_when;
  if (about_.empty && params.for_writing && bytes_seen_ <= kSmallFile * when.after_bytes) return false;
  if (about_.gathers && params.for_writing)
    return params.total_bytes >= when.after_bytes || transfers_seen_ >= kUngathered * when.after_transfers;
  return bytes_seen_ >= when.after_bytes || transfers_seen_ >= when.after_transfers;
}

bool Bypass::worth_it(const BypassParams& params) {
  ++transfers_seen_;
  bytes_seen_ += params.total_bytes;
  if (!enough(params)) return false;
  const MonoTime now = session_.executor().now();
  const BypassOptions& when = session_.options().bypass_when;
  for (const wire::SlotRef& ref : params.slots) {
    const SlotLeases& slot = slots_[ref.slot];
    if (slot.not_before > now || (about_.empty && params.for_writing && !slot.written)) return false;
  }
  const bmi::PeerInfo peer = params.channel.peer_info();
  if (!peer.connected || peer.passes_descriptors) return peer.connected;
  // The server is on another machine, or on another network. A connection may move, so the question is asked again from
  // time to time.
  for (const wire::SlotRef& ref : params.slots) slots_[ref.slot].not_before = now + when.ask_again_after;
  return false;
}

void Bypass::written_by_server(std::uint32_t slot) {
  SlotLeases& entry = slots_[slot];
  if (!std::exchange(entry.written, true)) entry.not_before = MonoTime();
}

bool Bypass::may_write(std::uint32_t slot) const {
  if (session_.options().bypass != BypassMode::kWrite) return false;
  const auto found = slots_.find(slot);
  return found == slots_.end() || found->second.not_before <= session_.executor().now();
}

job::Task<bool> Bypass::ready(const BypassParams& params, Limits limits) {
  if (holds(params)) co_return true;
  if (asking_ && params.path != wire::DataPath::kBypass) co_return false;
  auto turn = co_await turn_.acquire(1);
  if (!turn || holds(params)) co_return turn.has_value();  // the call before this one may have got the leases
  asking_ = true;
  const auto asked = co_await ask(params, limits);
  asking_ = false;
  if (!asked) refusal_ = asked.error().message();
  co_return holds(params);
}

job::Task<Result<void>> Bypass::ask(const BypassParams& params, Limits limits) {
  for (std::size_t first = 0; first < params.slots.size(); first += wire::kMaxLeaseSlots) {
    wire::BypassLeaseRequest request;
    request.handle = params.handle;
    request.for_writing = params.for_writing;
    for (std::size_t i = first; i < params.slots.size() && i < first + wire::kMaxLeaseSlots; ++i) {
      const wire::SlotRef& ref = params.slots[i];
      slots_[ref.slot].not_before = session_.executor().now() + session_.options().bypass_when.ask_again_after;
      if (find(ref.slot, params.for_writing) == nullptr) request.slots.push_back(ref);
    }
    if (request.slots.empty()) continue;
    TagWatch watch;
    rpc::CallOptions options = limits.call_options();
    options.capability = &params.capability;
    options.bulk = &watch;
    SPATE_CO_TRY(const auto reply, co_await params.channel.call<wire::BypassLeaseReply>(request, options));
    if (reply.leases.size() != request.slots.size()) co_return Errc::kProtocol;
    for (std::size_t i = 0; i < request.slots.size(); ++i) {
      if (reply.leases[i].lease_id == 0) {
        refusal_ = reply.leases[i].refusal;
        continue;
      }
      auto taken = take(params.channel, watch.peer, watch.tag + 1 + 2 * i, request, i);
      HeldPtr held = taken ? *taken : std::make_shared<Held>();
      held->channel = &params.channel;
      held->id = reply.leases[i].lease_id;
      ended_.push_back(held);  // a lease that cannot be used is returned, too
      if (!taken) {
        refusal_ = taken.error().message();
        continue;
      }
      SlotLeases& slot = slots_[request.slots[i].slot];
      slot.not_before = MonoTime();
      (params.for_writing ? slot.writer : slot.reader) = std::move(held);
    }
  }
  co_return Result<void>();
}

Result<Bypass::HeldPtr> Bypass::take(rpc::Channel& channel, bmi::Address peer, std::uint64_t tag,
                                     const wire::BypassLeaseRequest& request, std::size_t index) {
  bmi::Network& network = session_.network().network();
  SPATE_TRY(UniqueFd shared, network.take_descriptor(peer, bmi::Tag(tag)));
  SPATE_TRY(UniqueFd file, network.take_descriptor(peer, bmi::Tag(tag + 1)));
  auto held = std::make_shared<Held>();
  SPATE_TRY(held->file, leased_files_.open(std::move(shared), std::move(file), request.for_writing));
  const LeaseWords& words = held->words();
  const bool sound = words.magic == LeaseWords::kMagic && words.handle == request.handle.value &&
                     words.slot == request.slots[index].slot;
  if (!sound) return Error(Errc::kProtocol, channel.name() + " passed something that is no lease");
  held->writable = request.for_writing;
  return held;
}

/// Whether a write of `size` bytes fits the device beside what the server keeps of it. Looks once a MiB.
bool Bypass::has_room(Held& held, std::uint64_t size) {
  if (size < held.may_write) {
    held.may_write -= size;
    return true;
  }
  held.may_write = kBetweenLooks;
  return held.file->has_space();
}

job::Task<Result<std::optional<Bypass::MoveResult>>> Bypass::move(const SlotWork& work) {
  const HeldPtr held = find(work.slot, work.is_write);  // keeps the lease alive if it leaves the table during the move
  if (held == nullptr) co_return std::optional<MoveResult>();
  if (work.is_write && !has_room(*held, work.what.total_bytes())) {
    slots_[work.slot].not_before = session_.executor().now() + session_.options().bypass_when.ask_again_after;
    let_go(work.slot, held);
    co_return std::optional<MoveResult>();  // the server knows how much may be written, and says which device is full
  }
  if (work.is_write) {
    const bool ours = held->file->size().has_value();
    if (!ours) held->file->disown();  // the descriptor may belong to the program by now, so it must not be closed here
    if (!ours || !held->words().begin()) {
      let_go(work.slot, held);
      co_return std::optional<MoveResult>();
    }
  }
  LocalMove move(work);
  if (!held->file->try_now(move)) co_await held->file->finish(move);
  if (work.is_write) {
    LeaseWords& words = held->words();
    words.last_write_ns.store(session_.fs_time().ns, std::memory_order_relaxed);
    words.writes.fetch_add(1, std::memory_order_seq_cst);
    if (!words.end()) {
      let_go(work.slot, held);
      co_return Error(Errc::kLostWrite, "the server fenced this client in the middle of a write");
    }
  }
  const std::optional<std::uint64_t> size = held->file->size();
  if (!work.is_write && !size) {
    held->file->disown();
    let_go(work.slot, held);
    co_return std::optional<MoveResult>();  // the bytes came from another file; the server's read replaces them
  }
  if (move.status() != Errc::kOk) co_return move.status();
  (work.is_write ? held->written_bytes : held->read_bytes) += move.bytes();
  bytes_moved_ += move.bytes();
  const std::uint64_t granted = held->words().counter;
  const MoveResult moved{move.bytes(), size.value_or(0), granted == 0 ? 0 : granted + 1};
  co_return std::optional<MoveResult>(moved);
}

job::Task<void> Bypass::give_back(Limits limits) {
  slots_.clear();
  std::unordered_map<rpc::Channel*, wire::BypassReturnRequest> requests;
  for (const HeldPtr& held : ended_) {
    auto& leases = requests[held->channel].leases;
    if (leases.size() < wire::kMaxReturned) leases.push_back({held->id, held->read_bytes, held->written_bytes});
  }
  ended_.clear();
  // The server recalls a lease that is not returned, so a close does not wait for a server that is away.
  limits.deadline = std::min(limits.deadline, session_.executor().now() + kReturnTimeout);
  for (auto& [channel, request] : requests) {
    const auto returned = co_await channel->call<wire::BypassReturnReply>(request, limits.call_options());
    std::ignore = returned;
  }
}

}  // namespace spate::client
