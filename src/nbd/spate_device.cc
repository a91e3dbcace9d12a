// SPDX-License-Identifier: Apache-2.0
#include "nbd/spate_device.h"

#include <algorithm>
#include <bit>

#include "nbd/protocol.h"

namespace spate::nbd {

SpateDevice::SpateDevice(std::string path, std::unique_ptr<client::File> file)
    : path_(std::move(path)), file_(std::move(file)), flush_turn_(file_->executor(), 1) {}

job::Task<Result<std::unique_ptr<SpateDevice>>> SpateDevice::open(client::Client& client, std::string path,
                                                                  bool read_only) {
  const auto flags = static_cast<std::uint8_t>(read_only ? wire::kOpenRead : wire::kOpenRead | wire::kOpenWrite);
  client::NamePath where = client::path_from_root(path);
  auto file = co_await client.open(std::move(where), flags);
  if (!file) co_return std::move(file).error().within("open spate:" + path);
  std::unique_ptr<SpateDevice> device(new SpateDevice(std::move(path), *std::move(file)));
  device->read_only_ = read_only;
  auto attributes = co_await device->file_->stat();
  if (!attributes) {
    std::ignore = co_await device->file_->close();
    co_return std::move(attributes).error().within("look at spate:" + device->path_);
  }
  device->size_ = attributes->size;
  co_return device;
}

/// One strip: a read of it asks one server.
std::uint32_t SpateDevice::preferred_block() const {
  const std::uint64_t strip = std::clamp<std::uint64_t>(file_->layout().strip_bytes, 4096, kMaxPayload);
  return std::bit_floor(static_cast<std::uint32_t>(strip));
}

job::Task<void> SpateDevice::look() {
  const auto attributes = co_await file_->stat();
  if (attributes) size_ = attributes->size;
}

job::Task<Result<void>> SpateDevice::read(std::uint64_t offset, MutableByteView memory) {
  SPATE_CO_TRY(const auto got, co_await file_->read(offset, memory));
  if (got < memory.size()) co_return Errc::kIoError;  // the file has become shorter
  co_return Result<void>();
}

job::Task<Result<void>> SpateDevice::write(std::uint64_t offset, ByteView memory) {
  if (memory.empty()) co_return Result<void>();
  co_return co_await file_->write(offset, memory);
}

/// One flush at a time: a flush that finds another one in flight must not end before it.
job::Task<Result<void>> SpateDevice::flush() {
  SPATE_CO_TRY(const auto turn, co_await flush_turn_.acquire(1));
  if (read_only_) co_return Result<void>();
  auto flushed = co_await file_->sync();
  // After any other failure the data is still where it was, and the next flush may succeed.
  if (flushed.code() == Errc::kLostWrite) note_loss();
  co_return flushed;
}

job::Task<Result<void>> SpateDevice::trim(Extent range) {
  if (range.size == 0) co_return Result<void>();
  co_return co_await file_->punch(range.offset, range.size);
}

job::Task<Result<void>> SpateDevice::zero(Extent range, ZeroParams params) {
  if (range.size == 0) co_return Result<void>();
  auto punched = co_await file_->punch(range.offset, range.size);
  if (!punched || !params.keep_allocated) co_return punched;
  co_return co_await file_->allocate(range.offset, range.size);
}

/// The servers manage their page caches themselves.
job::Task<Result<void>> SpateDevice::make_resident(Extent /*range*/) { co_return Result<void>(); }

/// Returns as much as one answer of the servers covers; a client asks again for the rest.
job::Task<Result<std::vector<StatusExtent>>> SpateDevice::status(Extent range, std::size_t max) {
  constexpr std::uint32_t kRangesADatafile = 64;
  SPATE_CO_TRY(const client::DataMap map, co_await file_->data_map(range.offset, kRangesADatafile));
  const std::uint64_t end = std::min({range.offset + range.size, map.known_to(), map.file_size()});
  std::vector<StatusExtent> found;
  for (std::uint64_t at = range.offset; at < end && found.size() < max;) {
    const bool hole = map.next_data(at) > at;
    const std::uint64_t next = std::min(hole ? map.next_data(at) : map.next_hole(at), end);
    found.push_back({next - at, hole ? kHole | kZero : 0});
    at = next;
  }
  if (found.empty()) found.push_back({range.size, 0});
  co_return found;
}

job::Task<Result<void>> SpateDevice::close() {
  auto closed = co_await file_->close();
  if (!closed) co_return std::move(closed).error().within("close spate:" + path_);
  co_return Result<void>();
}

}  // namespace spate::nbd
