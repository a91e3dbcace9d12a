// SPDX-License-Identifier: Apache-2.0
#include "client/session/handover_state.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <type_traits>

#include "base/check.h"

namespace spate::client {
namespace {

constexpr std::uint64_t kMagic = 0x5265646765'4C7053;
constexpr std::uint32_t kMostSlots = 4096;
constexpr std::size_t kMostServers = 4096;
// The most locks and rights of one session (LockLimits), doubled because old records stay until they are replaced.
constexpr std::uint32_t kMostHeld = 1U << 17U;
constexpr std::uint32_t kMostWaits = 1U << 13U;
constexpr std::uint32_t kMostAppends = 1U << 12U;
constexpr std::uint32_t kMostOpens = 1U << 20U;
/// No program has so many files open, so the memory of the records behind them is for directories. Programs that do not
/// know this share the layout.
constexpr std::uint32_t kUsedOpens = kMostOpens - (1U << 16U);
constexpr std::uint32_t kMostDirectories = 1U << 15U;
constexpr std::size_t kMostCopied = 1U << 17U;
constexpr std::size_t kMostKept = 1U << 16U;
/// The number of places where one object's record may be.
constexpr std::size_t kCopiedPlaces = 16;

/// A process that is killed has done stores before this call if it has done stores after it.
void in_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace

struct HandoverState::Directories {
  std::uint64_t generation = 0;  // the last process that kept them
  std::uint64_t high = 0;
  std::array<Directory, kMostDirectories> records;
};

/// Takes memory only for those pages of the file that are touched.
struct HandoverState::Layout {
  struct Server {
    ServerId server;
    Incarnation incarnation;
  };
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;
  std::uint64_t generation = 0;
  std::uint64_t session_number = 0;  // session[session_number % 2] is the valid one; 0: none yet
  std::array<SessionRecord, 2> session;
  LockState locks;
  std::uint64_t server_changes = 0;
  std::uint64_t server_count = 0;
  std::uint64_t high_held = 0;
  std::uint64_t high_waits = 0;
  std::uint64_t high_appends = 0;
  std::uint64_t high_opens = 0;
  std::uint64_t high_lock_uses = 0;
  std::array<Server, kMostServers> servers;
  std::array<RequestSlot, kMostSlots> slots;
  alignas(16) std::array<std::byte, kFrontendBytes> frontend;
  std::array<Held, kMostHeld> held;
  std::array<Wait, kMostWaits> waits;
  std::array<Append, kMostAppends> appends;
  std::array<LockUse, kMostHeld> lock_uses;
  std::array<Open, kMostOpens> opens;
  std::array<Copied, kMostCopied> copied;
  std::array<PageRecord, kMostKept> kept;

  /// Null: records of open files have been there.
  Directories* directories() {
    static_assert(sizeof(Directories) <= (kMostOpens - kUsedOpens) * sizeof(Open));
    return high_opens > kUsedOpens ? nullptr : reinterpret_cast<Directories*>(opens.data() + kUsedOpens);
  }
};

Result<std::unique_ptr<HandoverState>> HandoverState::open(int fd) {
  static_assert(std::is_trivially_copyable_v<Layout>);
  struct stat state{};
  if (::fstat(fd, &state) != 0) return errno_error(errno, "the mount's handover");
  const bool fresh = state.st_size == 0;
  if (fresh && ::ftruncate(fd, sizeof(Layout)) != 0) return errno_error(errno, "make the mount's handover");
  if (!fresh && state.st_size != sizeof(Layout)) {
    return Error(Errc::kVersionMismatch, "the mount's handover is of another version of Spate");
  }
  void* const memory = ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) return errno_error(errno, "map the mount's handover");
  Layout& layout = *static_cast<Layout*>(memory);  // all zeros are a valid layout
  if (fresh) {
    layout.bytes = sizeof(Layout);
    layout.version = kVersion;
    in_order();
    layout.magic = kMagic;
  }
  if (layout.magic != kMagic || layout.version != kVersion || layout.bytes != sizeof(Layout) ||
      layout.server_count > kMostServers) {
    ::munmap(memory, sizeof(Layout));
    return Error(Errc::kVersionMismatch, "the mount's handover is of another version of Spate");
  }
  ++layout.generation;
  return std::unique_ptr<HandoverState>(new HandoverState(layout));
}

HandoverState::HandoverState(Layout& layout)
    : layout_(layout),
      held_(std::make_unique<HandoverRecords<Held>>(layout.held.data(), kMostHeld, layout.high_held)),
      waits_(std::make_unique<HandoverRecords<Wait>>(layout.waits.data(), kMostWaits, layout.high_waits)),
      appends_(std::make_unique<HandoverRecords<Append>>(layout.appends.data(), kMostAppends, layout.high_appends)),
      lock_uses_(
          std::make_unique<HandoverRecords<LockUse>>(layout.lock_uses.data(), kMostHeld, layout.high_lock_uses)) {
  share_opens();
  held_->for_each([this](Held& piece) {
    pieces_[{piece.handle, piece.kind, piece.owner}].push_back(&piece);
    stamp_ = std::max(stamp_, piece.stamp);
  });
  for (std::uint32_t i = 0; i < kMostSlots; ++i) {
    if (layout_.slots[i].request_id != 0) slots_used_ = i + 1;
  }
  appends_->for_each([this](const Append& append) { inherited_appends_.insert(append.request_id); });
}

void HandoverState::share_opens() {
  Directories* const kept = layout_.directories();
  const std::uint32_t most_opens = kept == nullptr ? kMostOpens : kUsedOpens;
  opens_ = std::make_unique<HandoverRecords<Open>>(layout_.opens.data(), most_opens, layout_.high_opens);
  if (kept == nullptr) {
    directories_ = std::make_unique<HandoverRecords<Directory>>(nullptr, 0, no_directories_);
    return;
  }
  // A process that does not keep them may have closed some.
  if (kept->generation + 1 != layout_.generation) std::fill_n(kept->records.begin(), kept->high, Directory{});
  in_order();
  kept->generation = layout_.generation;
  directories_ = std::make_unique<HandoverRecords<Directory>>(kept->records.data(), kMostDirectories, kept->high);
}

HandoverState::~HandoverState() { ::munmap(&layout_, sizeof(Layout)); }

std::uint64_t HandoverState::generation() const { return layout_.generation; }

/// Keeps two copies, so that one is always complete.
void HandoverState::keep_session(const SessionRecord& session) {
  layout_.session[(layout_.session_number + 1) % 2] = session;
  in_order();
  ++layout_.session_number;
}

std::optional<HandoverState::SessionRecord> HandoverState::session() const {
  if (layout_.session_number == 0) return std::nullopt;
  return layout_.session[layout_.session_number % 2];
}

std::uint32_t HandoverState::slot_count() const { return kMostSlots; }

HandoverState::RequestSlot HandoverState::slot(std::uint32_t index) const {
  RequestSlot& shared = layout_.slots.at(index);
  RequestSlot slot{shared.sequence, shared.request_id, shared.digest, 0, shared.ended};
  slot.answered = std::atomic_ref(shared.answered).load(std::memory_order_acquire);
  return slot;
}

void HandoverState::begin_request(std::uint32_t index, const RequestSlot& slot) {
  RequestSlot& shared = layout_.slots.at(index);
  const std::atomic_ref request_id(shared.request_id);  // call_answered() reads it
  request_id.store(0, std::memory_order_relaxed);
  in_order();
  shared.sequence = slot.sequence;
  shared.digest = slot.digest;
  shared.ended = false;
  in_order();
  request_id.store(slot.request_id, std::memory_order_relaxed);
  in_order();
  if (index >= slots_used_) slots_used_ = index + 1;
}

void HandoverState::end_request(std::uint32_t index) { layout_.slots.at(index).ended = true; }

/// Stores the number of the call instead of a flag, because by
/// the time of the store the slot may have another request.
void HandoverState::call_answered(std::uint64_t request_id) {
  const std::uint32_t used = slots_used_;
  for (std::uint32_t i = 0; i < used; ++i) {
    RequestSlot& shared = layout_.slots[i];
    if (std::atomic_ref(shared.request_id).load(std::memory_order_relaxed) == request_id)
      std::atomic_ref(shared.answered).store(request_id, std::memory_order_release);
  }
}

std::uint64_t HandoverState::write_number() const { return layout_.server_changes + 1; }

std::uint64_t HandoverState::note_written(ServerId server, Incarnation incarnation) {
  using Server = Layout::Server;
  Server* const end = layout_.servers.data() + layout_.server_count;
  Server* const found = std::find_if(layout_.servers.data(), end, [&](const Server& s) { return s.server == server; });
  if (found == end) {
    if (layout_.server_count < kMostServers) {
      *found = {server, incarnation};
      in_order();
      ++layout_.server_count;
    }
  } else if (found->incarnation != incarnation) {
    ++layout_.server_changes;  // first, so that no lost write counts as safe
    in_order();
    found->incarnation = incarnation;
  }
  return write_number();
}

std::optional<Incarnation> HandoverState::last_writer(ServerId server) const {
  for (std::size_t i = 0; i < layout_.server_count; ++i) {
    if (layout_.servers[i].server == server) return layout_.servers[i].incarnation;
  }
  return std::nullopt;
}

HandoverState::LockState HandoverState::lock_state() const { return layout_.locks; }

void HandoverState::keep_lock_state(const LockState& state) {
  if (state.table != layout_.locks.table) layout_.locks.acknowledged = 0;  // it counted events of the other table
  in_order();
  layout_.locks.table = state.table;
  in_order();
  layout_.locks.acknowledged = state.acknowledged;
  layout_.locks.last_sequence = state.last_sequence;
  in_order();
}

/// Publishes the new pieces before it removes the old ones. If the process is killed in between, too much counts as
/// locked; the file's close corrects that.
void HandoverState::keep_held(const Held& like, const std::vector<HeldLock>& pieces) {
  std::vector<Held*>& kept = pieces_[{like.handle, like.kind, like.owner}];
  std::vector<Held*> before;
  before.swap(kept);
  for (const HeldLock& piece : pieces) {
    Held* const record = held_->take();
    if (record == nullptr) break;  // a successor will not claim this piece after a restart of the meta server
    *record = like;
    record->in_use = 0;
    record->stamp = ++stamp_;
    record->first = piece.range.first;
    record->last = piece.range.last;
    record->mode = piece.mode;
    held_->publish(*record);
    kept.push_back(record);
  }
  for (Held* const record : before) held_->remove(*record);
  if (kept.empty()) pieces_.erase({like.handle, like.kind, like.owner});
}

std::vector<HandoverState::Held> HandoverState::held() const {
  std::vector<Held> all;
  held_->for_each([&](const Held& piece) { all.push_back(piece); });
  std::sort(all.begin(), all.end(), [](const Held& a, const Held& b) { return a.stamp < b.stamp; });
  return all;
}

void HandoverState::keep_wait(std::uint64_t sequence, const Held& lock) {
  Wait* const record = waits_->take();
  if (record == nullptr) return;
  record->sequence = sequence;
  record->lock = lock;
  waits_->publish(*record);
}

void HandoverState::end_wait(std::uint64_t sequence) {
  Wait* found = nullptr;
  waits_->for_each([&](Wait& wait) {
    if (wait.sequence == sequence) found = &wait;
  });
  if (found != nullptr) waits_->remove(*found);
}

std::vector<HandoverState::Wait> HandoverState::waits() const {
  std::vector<Wait> all;
  waits_->for_each([&](const Wait& wait) { all.push_back(wait); });
  return all;
}

std::uint64_t HandoverState::place_append(Append append) {
  const std::lock_guard lock(append_mutex_);
  const auto same_right = [&](const Append& other) {
    return other.handle == append.handle && other.client == append.client && other.epoch == append.epoch;
  };
  std::uint64_t end = append.offset;
  Append* again = nullptr;
  appends_->for_each([&](Append& other) {
    if (!inherited_appends_.contains(other.request_id) || !same_right(other)) return;
    if (append.request_id != 0 && other.request_id == append.request_id && other.size == append.size) again = &other;
    end = std::max(end, other.offset + other.size);
  });
  if (again != nullptr) return again->offset;
  append.offset = end;
  Append* const record = append.request_id == 0 ? nullptr : appends_->take();
  if (record != nullptr) {
    *record = append;
    record->in_use = 0;
    appends_->publish(*record);
  }
  return end;
}

void HandoverState::end_append(std::uint64_t request_id) {
  const std::lock_guard lock(append_mutex_);
  appends_->for_each([&](Append& append) {
    if (append.request_id == request_id) appends_->remove(append);
  });
  inherited_appends_.erase(request_id);
  asked_again_.erase(request_id);
}

void HandoverState::asked_again(std::uint64_t request_id) {
  const std::lock_guard lock(append_mutex_);
  if (inherited_appends_.contains(request_id)) asked_again_.insert(request_id);
}

bool HandoverState::may_append_again(Handle handle) {
  const std::lock_guard lock(append_mutex_);
  bool may = false;
  if (inherited_appends_.empty()) return false;
  appends_->for_each(
      [&](const Append& append) { may |= append.handle == handle && inherited_appends_.contains(append.request_id); });
  return may;
}

void HandoverState::forget_unasked() {
  forget_unasked_if([](const Append&) { return true; });
}

void HandoverState::forget_unasked(Handle cut) {
  forget_unasked_if([cut](const Append& append) { return append.handle == cut; });
}

template <typename Which>
void HandoverState::forget_unasked_if(Which which) {
  const std::lock_guard lock(append_mutex_);
  if (inherited_appends_.empty()) return;
  appends_->for_each([&](Append& append) {
    const bool unasked = inherited_appends_.contains(append.request_id) && !asked_again_.contains(append.request_id);
    if (!unasked || !which(append)) return;
    inherited_appends_.erase(append.request_id);
    appends_->remove(append);
  });
}

bool HandoverState::note_copy(Handle object, MonoTime until, MonoTime now) {
  const std::size_t first = object.value % kMostCopied;
  Copied* place = nullptr;
  for (std::size_t i = 0; i < kCopiedPlaces; ++i) {
    Copied& record = layout_.copied[(first + i) % kMostCopied];
    if (record.handle == object) {
      record.until = std::max(record.until, until);
      return true;
    }
    if (place == nullptr && record.until <= now) place = &record;
  }
  if (place == nullptr) return false;
  place->until = until;  // the copy is given away later, so until then either handle is correct
  in_order();
  place->handle = object;
  return true;
}

std::vector<Handle> HandoverState::copied(MonoTime now) const {
  std::vector<Handle> all;
  for (const Copied& record : layout_.copied) {
    if (now < record.until) all.push_back(record.handle);
  }
  return all;
}

std::span<HandoverState::PageRecord> HandoverState::kept() const { return layout_.kept; }

std::byte* HandoverState::frontend_memory() const { return layout_.frontend.data(); }

}  // namespace spate::client
