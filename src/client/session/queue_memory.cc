// SPDX-License-Identifier: Apache-2.0
#include "client/session/queue_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/printable.h"
#include "log/fields.h"
#include "wire/meta_messages.h"

namespace spate::client {
namespace {

constexpr std::string_view kQueueName = "memory for queued changes";
constexpr MemoryMark kQueueMark{0x65756575'51475053, 1};
/// The header lies in front of the ring.
constexpr std::size_t kQueueFrontBytes = 65536;
constexpr std::size_t kMostRanges = 2;
constexpr std::size_t kMostCalls = 1024;

void publish(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

template <typename Request>
wire::NamePath where_of(ByteView body) {
  auto request = wire::decode_body<Request>(body);
  return request ? std::move(request->where) : wire::NamePath{Handle(), {}, 0};
}

/// The close of an open for reading. Nothing: the record is another change.
std::optional<wire::CloseRequest> reader_close(const QueueMemory::Record& record) {
  if (record.op != wire::Op::kClose) return std::nullopt;
  auto close = wire::decode_body<wire::CloseRequest>(record.body);
  const bool reads = close && close->rights == Rights::kRead && !close->mtime && !close->mode;
  return reads ? std::optional(*std::move(close)) : std::nullopt;
}

}  // namespace

/// In front of the body of a record.
struct QueueMemory::Front {
  std::uint64_t number = 0;
  std::uint64_t object = 0;
  std::int64_t at_ns = 0;
  std::uint64_t request_id = 0;
  std::uint32_t body_bytes = 0;
  std::uint16_t op = 0;
  std::uint16_t makes = 0;
  std::uint64_t bytes() const { return sizeof(Front) + body_bytes; }
};

struct QueueMemory::CallSlot {
  std::uint64_t request_id = 0;  // stored last; 0: the slot is free
  std::uint64_t number = 0;      // of the record
  std::uint64_t object = 0;
  std::uint64_t op = 0;
};

/// The records lie between `begin` and `end`, which only grow; a place in the ring is the remainder.
struct QueueMemory::Header {
  MemoryMark mark;
  std::uint64_t owner_known = 0;  // stored last by begin(): what follows belongs to the owner
  std::uint64_t client = 0;
  std::uint64_t epoch = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t dropped = 0;  // the number of the last record that was dropped. If there are records, theirs count
  std::uint64_t next_handle = 0;
  std::array<Range, kMostRanges> ranges{};
  std::uint64_t losses = 0;
  std::array<CallSlot, kMostCalls> calls{};
};

Result<std::unique_ptr<QueueMemory>> QueueMemory::open(int fd, std::size_t bytes) {
  static_assert(sizeof(Header) <= kQueueFrontBytes);
  SPATE_TRY(auto memory, InheritedMemory::open(fd, bytes, kQueueFrontBytes + 1, kQueueName));
  if (memory.mark().magic == 0) memory.set_mark(kQueueMark);
  if (memory.mark() != kQueueMark) return InheritedMemory::of_another_version(kQueueName);
  std::unique_ptr<QueueMemory> queue(new QueueMemory(std::move(memory)));
  queue->load();
  return queue;
}

QueueMemory::QueueMemory(InheritedMemory memory)
    : memory_(std::move(memory)),
      header_(*reinterpret_cast<Header*>(memory_.data())),
      ring_(memory_.data() + kQueueFrontBytes),
      capacity_(memory_.size() - kQueueFrontBytes) {}

void QueueMemory::load() {
  index_calls();
  if (header_.owner_known == 0) return;
  owner_ = Owner{ClientId(header_.client), static_cast<std::uint32_t>(header_.epoch)};
  last_ = header_.dropped;
  for (std::uint64_t at = header_.begin; at < header_.end;) {
    const Front front = front_at(at);
    last_ = front.number;
    ++size_;
    at += front.bytes();
  }
  inherited_ = size_ > 0;
  for (CallSlot& call : header_.calls) {
    if (call.number > last_) call = CallSlot();  // its record was never published
  }
  index_calls();
}

void QueueMemory::index_calls() {
  calls_.clear();
  free_calls_.clear();
  for (std::size_t i = header_.calls.size(); i > 0; --i) {
    const std::uint64_t request_id = header_.calls[i - 1].request_id;
    if (request_id == 0) {
      free_calls_.push_back(i - 1);
    } else {
      calls_[request_id] = i - 1;
    }
  }
}

void QueueMemory::begin(Owner owner, std::uint64_t last) {
  publish(header_.owner_known, 0);
  header_.client = owner.client.value;
  header_.epoch = owner.epoch;
  header_.begin = header_.end = header_.next_handle = 0;
  header_.dropped = last;
  header_.ranges = {};
  for (CallSlot& call : header_.calls) call = CallSlot();
  publish(header_.owner_known, 1);
  owner_ = owner;
  size_ = 0;
  last_ = last;
  inherited_ = false;
  index_calls();
}

void QueueMemory::put(std::uint64_t at, const void* from, std::size_t size) {
  const std::uint64_t place = at % capacity_;
  const std::size_t first = std::min<std::uint64_t>(size, capacity_ - place);
  std::memcpy(ring_ + place, from, first);
  std::memcpy(ring_, static_cast<const std::byte*>(from) + first, size - first);
}

void QueueMemory::get(std::uint64_t at, void* to, std::size_t size) const {
  const std::uint64_t place = at % capacity_;
  const std::size_t first = std::min<std::uint64_t>(size, capacity_ - place);
  std::memcpy(to, ring_ + place, first);
  std::memcpy(static_cast<std::byte*>(to) + first, ring_, size - first);
}

QueueMemory::Front QueueMemory::front_at(std::uint64_t at) const {
  Front front;
  get(at, &front, sizeof(front));
  SPATE_CHECK(front.bytes() <= header_.end - at);
  return front;
}

std::uint64_t QueueMemory::append(const Record& record) {
  SPATE_CHECK(header_.owner_known != 0);
  Front front;
  front.number = last_ + 1;
  front.object = record.object.value;
  front.at_ns = record.at.ns;
  front.request_id = record.request_id;
  front.body_bytes = static_cast<std::uint32_t>(record.body.size());
  front.op = static_cast<std::uint16_t>(record.op);
  front.makes = record.makes ? 1 : 0;
  if (header_.end - header_.begin + front.bytes() > capacity_) return 0;
  if (record.request_id != 0) {
    call_answered(record.request_id);
    if (free_calls_.empty()) return 0;
    const std::size_t index = free_calls_.back();
    free_calls_.pop_back();
    calls_[record.request_id] = index;
    CallSlot& call = header_.calls[index];
    call.number = front.number;
    call.object = front.object;
    call.op = front.op;
    publish(call.request_id, record.request_id);
  }
  put(header_.end, &front, sizeof(front));
  put(header_.end + sizeof(front), record.body.data(), record.body.size());
  publish(header_.end, header_.end + front.bytes());
  ++size_;
  return last_ = front.number;
}

std::vector<QueueMemory::Record> QueueMemory::after(std::uint64_t number, std::size_t most, std::size_t bytes) const {
  std::vector<Record> records;
  std::size_t sum = 0;
  for (std::uint64_t at = header_.begin; at < header_.end && records.size() < most;) {
    const Front front = front_at(at);
    const std::uint64_t body_at = at + sizeof(front);
    at += front.bytes();
    if (front.number <= number) continue;
    sum += front.body_bytes;
    if (!records.empty() && sum > bytes) break;
    Record& record = records.emplace_back();
    record.number = front.number;
    record.op = static_cast<wire::Op>(front.op);
    record.object = Handle(front.object);
    record.makes = front.makes != 0;
    record.at = WallTime{front.at_ns};
    record.request_id = front.request_id;
    record.body.resize(front.body_bytes);
    get(body_at, record.body.data(), record.body.size());
  }
  return records;
}

void QueueMemory::drop_until(std::uint64_t number) {
  std::uint64_t at = header_.begin;
  std::uint64_t dropped = header_.dropped;
  while (at < header_.end) {
    const Front front = front_at(at);
    if (front.number > number) break;
    dropped = front.number;
    at += front.bytes();
    --size_;
  }
  publish(header_.dropped, dropped);
  publish(header_.begin, at);
}

bool QueueMemory::add_range(Range range) {
  if (range.first + range.count <= header_.next_handle) return false;
  for (const Range& kept : header_.ranges) {
    if (kept.count != 0 && kept.first == range.first) return false;
  }
  for (Range& place : header_.ranges) {
    if (place.count != 0) continue;
    place.first = range.first;
    publish(place.count, range.count);
    return true;
  }
  return false;
}

std::uint64_t QueueMemory::handles_left() const {
  std::uint64_t left = 0;
  for (const Range& range : header_.ranges) {
    const std::uint64_t end = range.first + range.count;
    left += end - std::clamp(header_.next_handle, range.first, end);
  }
  return left;
}

Handle QueueMemory::take_handle() {
  Range* lowest = nullptr;
  for (Range& range : header_.ranges) {
    const bool left = range.count != 0 && header_.next_handle < range.first + range.count;
    if (!left) {
      publish(range.count, 0);
    } else if (lowest == nullptr || range.first < lowest->first) {
      lowest = &range;
    }
  }
  if (lowest == nullptr) return Handle();
  const std::uint64_t taken = std::max(header_.next_handle, lowest->first);
  publish(header_.next_handle, taken + 1);
  return Handle(taken);
}

void QueueMemory::call_answered(std::uint64_t request_id) {
  const auto found = calls_.find(request_id);
  if (found == calls_.end()) return;
  publish(header_.calls[found->second].request_id, 0);
  free_calls_.push_back(found->second);
  calls_.erase(found);
}

std::optional<QueueMemory::Call> QueueMemory::inherited_call(std::uint64_t request_id) const {
  const auto found = calls_.find(request_id);
  if (found == calls_.end()) return std::nullopt;
  const CallSlot& call = header_.calls[found->second];
  return Call{Handle(call.object), static_cast<wire::Op>(call.op)};
}

void QueueMemory::note_loss() { std::atomic_ref(header_.losses).fetch_add(1, std::memory_order_relaxed); }

std::uint64_t QueueMemory::losses() const { return std::atomic_ref(header_.losses).load(std::memory_order_relaxed); }

wire::NamePath QueueMemory::name_of(const Record& record) {
  switch (record.op) {
    case wire::Op::kCreate: return where_of<wire::CreateRequest>(record.body);
    case wire::Op::kMkdir: return where_of<wire::MkdirRequest>(record.body);
    case wire::Op::kSymlink: return where_of<wire::SymlinkRequest>(record.body);
    case wire::Op::kUnlink: return where_of<wire::UnlinkRequest>(record.body);
    case wire::Op::kRmdir: return where_of<wire::RmdirRequest>(record.body);
    default: return {Handle(), {}, 0};
  }
}

bool QueueMemory::is_of_reader(const Record& record) {
  return record.op == wire::Op::kOpen || reader_close(record).has_value();
}

bool QueueMemory::changes_nothing(const Record& record) {
  if (record.op == wire::Op::kOpen) return true;
  const auto close = reader_close(record);
  return close && !close->atime;
}

std::string QueueMemory::text(const Record& record) {
  const std::string text = fmt::format("change={} inode={}", wire::op_name(record.op), record.object.value);
  const wire::NamePath where = name_of(record);
  if (!where.start) return text;
  return fmt::format("{} directory={} name={}", text, where.start.value,
                     escape_controls(fmt::format("{}", log::Quoted{where.path})));
}

std::vector<std::string> QueueMemory::texts() const {
  std::vector<std::string> all;
  for (const Record& record : after(0, ~std::size_t{0}, ~std::size_t{0})) {
    if (!is_of_reader(record)) all.push_back(text(record));
  }
  return all;
}

}  // namespace spate::client
