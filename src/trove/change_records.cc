// SPDX-License-Identifier: Apache-2.0
#include "trove/change_records.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/codec.h"
#include "base/unique_fd.h"

namespace spate::trove {
namespace {

constexpr const char* kFileName = "changes";
constexpr const char* kFreshName = "changes.new";
constexpr std::string_view kMagic = "SpateChg";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 4096;
constexpr std::size_t kBootIdBytes = 36;
constexpr std::size_t kWords = 4;  // handle; slot and changing; counter; mtime
constexpr std::size_t kRecordBytes = kWords * 8;
constexpr std::size_t kMaxFileBytes = 64U << 20U;

static_assert(std::endian::native == std::endian::little, "records are stored as little-endian words");

std::atomic_ref<std::uint64_t> word(std::byte* map, int slot, std::size_t index) {
  std::byte* const at = map + kHeaderBytes + static_cast<std::size_t>(slot) * kRecordBytes + index * 8;
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at));
}

Bytes header(const std::string& boot_id) {
  Bytes out;
  Encoder encoder(out);
  encoder.raw(as_bytes(kMagic));
  encoder.u32(kVersion);
  encoder.raw(as_bytes(boot_id));
  return out;
}

Result<Bytes> read_file(int folder) {
  const UniqueFd fd(::openat(folder, kFileName, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat st{};
  if (!fd || ::fstat(fd.get(), &st) != 0) return errno_error(errno, "open change records");
  if (st.st_size < static_cast<off_t>(kHeaderBytes) || st.st_size > static_cast<off_t>(kMaxFileBytes)) {
    return Errc::kCorrupt;
  }
  Bytes out(static_cast<std::size_t>(st.st_size));
  const ssize_t n = ::pread(fd.get(), out.data(), out.size(), 0);
  if (n < 0) return errno_error(errno, "read change records");
  out.resize(static_cast<std::size_t>(n));
  return out;
}

}  // namespace

std::string current_boot_id() {
  const UniqueFd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::string text(kBootIdBytes, '\0');
  if (!fd || ::read(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(kBootIdBytes)) return {};
  return text;
}

LeftOverRecords ChangeRecords::read(int folder, const std::string& boot_id) {
  const Result<Bytes> raw = read_file(folder);
  return raw ? parse(*raw, boot_id) : LeftOverRecords();
}

LeftOverRecords ChangeRecords::parse(ByteView raw, const std::string& boot_id) {
  LeftOverRecords found;
  if (raw.size() < kHeaderBytes) return found;
  Decoder decoder(raw);
  const ByteView magic = decoder.raw(kMagic.size());
  if (as_text(magic) != kMagic || decoder.u32() != kVersion) return found;
  const ByteView boot = decoder.raw(kBootIdBytes);
  found.same_boot = !boot_id.empty() && as_text(boot) == boot_id;
  decoder.raw(kHeaderBytes - kMagic.size() - 4 - kBootIdBytes);
  while (decoder.remaining() >= kRecordBytes) {
    ChangeRecord record;
    record.id.handle = Handle(decoder.u64());
    record.id.slot = decoder.u32();
    record.changing = decoder.u32();
    record.counter = decoder.u64();
    record.mtime_ns = decoder.i64();
    if (record.id.handle) found.records.push_back(record);
  }
  return found;
}

Result<std::unique_ptr<ChangeRecords>> ChangeRecords::create(int folder, const std::string& boot_id,
                                                             std::size_t slots) {
  const std::size_t size = kHeaderBytes + slots * kRecordBytes;
  if (size > kMaxFileBytes) return Error(Errc::kInvalidArgument, "change records: too many slots");
  ::unlinkat(folder, kFreshName, 0);
  UniqueFd fd(::openat(folder, kFreshName, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return errno == ENOSPC ? take_over(folder, boot_id, slots) : errno_error(errno, "create change records");
  // Allocated, not sparse: on a full device a store to a hole of the mapping would end the process.
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(size)); error != 0) {
    fd.reset();
    ::unlinkat(folder, kFreshName, 0);
    return error == ENOSPC ? take_over(folder, boot_id, slots) : errno_error(error, "allocate change records");
  }
  SPATE_TRY(auto made, map_file(fd.get(), boot_id, slots));
  if (::renameat(folder, kFreshName, folder, kFileName) != 0) return errno_error(errno, "name change records");
  return made;
}

/// On a full device the old file is used again, because its space is allocated already. Otherwise the server could not
/// start, nobody could remove anything, and the device would stay full. All records in it have been applied. If the
/// process dies in between, some of them are applied again, which has no effect.
Result<std::unique_ptr<ChangeRecords>> ChangeRecords::take_over(int folder, const std::string& boot_id,
                                                                std::size_t slots) {
  const UniqueFd fd(::openat(folder, kFileName, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat st{};
  if (!fd || ::fstat(fd.get(), &st) != 0 || st.st_size < static_cast<off_t>(kHeaderBytes)) {
    return errno_error(ENOSPC, "allocate change records");
  }
  const std::size_t room = (static_cast<std::size_t>(st.st_size) - kHeaderBytes) / kRecordBytes;
  const Bytes zeros(room * kRecordBytes);  // all of them, since the next start applies whatever it finds
  if (::pwrite(fd.get(), zeros.data(), zeros.size(), kHeaderBytes) != static_cast<ssize_t>(zeros.size())) {
    return errno_error(errno, "clear change records");
  }
  return map_file(fd.get(), boot_id, std::min(room, slots));
}

Result<std::unique_ptr<ChangeRecords>> ChangeRecords::map_file(int fd, const std::string& boot_id, std::size_t slots) {
  const std::size_t size = kHeaderBytes + slots * kRecordBytes;
  const Bytes head = header(boot_id);
  if (::pwrite(fd, head.data(), head.size(), 0) != static_cast<ssize_t>(head.size())) {
    return errno_error(errno, "write change records");
  }
  void* const map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (map == MAP_FAILED) return errno_error(errno, "map change records");
  return std::unique_ptr<ChangeRecords>(new ChangeRecords(static_cast<std::byte*>(map), size, slots));
}

ChangeRecords::ChangeRecords(std::byte* map, std::size_t map_size, std::size_t slots) : map_(map), map_size_(map_size) {
  for (std::size_t i = slots; i > 0; --i) free_.push_back(static_cast<int>(i - 1));
}

ChangeRecords::~ChangeRecords() { ::munmap(map_, map_size_); }

int ChangeRecords::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return -1;
  const int slot = free_.back();
  free_.pop_back();
  return slot;
}

void ChangeRecords::store(int slot, const ChangeRecord& record) {
  // The handle is written last. So a process that is killed in between leaves an old record or none. Both are right,
  // because nothing was acknowledged yet. (A record that is in use keeps its handle.)
  word(map_, slot, 1)
      .store(record.id.slot | (static_cast<std::uint64_t>(record.changing) << 32U), std::memory_order_release);
  word(map_, slot, 2).store(record.counter, std::memory_order_release);
  word(map_, slot, 3).store(static_cast<std::uint64_t>(record.mtime_ns), std::memory_order_release);
  word(map_, slot, 0).store(record.id.handle.value, std::memory_order_release);
}

void ChangeRecords::release(int slot) {
  word(map_, slot, 0).store(0, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

}  // namespace spate::trove
