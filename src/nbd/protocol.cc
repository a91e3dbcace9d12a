// SPDX-License-Identifier: Apache-2.0
#include "nbd/protocol.h"

namespace spate::nbd {
namespace {

template <typename T>
void put(std::byte* at, T v) {
  for (std::size_t i = sizeof(T); i-- > 0; v = static_cast<T>(v >> 8U)) at[i] = static_cast<std::byte>(v & 0xffU);
}
template <>
void put(std::byte* at, std::uint64_t v) {
  const std::uint64_t swapped = __builtin_bswap64(v);
  std::memcpy(at, &swapped, sizeof swapped);
}

template <typename T>
T get(const std::byte* at) {
  T v = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) v = static_cast<T>((v << 8U) | static_cast<T>(at[i]));
  return v;
}

/// The flags that a command accepts; nothing if the command does not exist. All of them accept FUA, as the protocol
/// demands.
std::optional<std::uint16_t> flags_of(const Request& request, const RequestRules& rules) {
  switch (request.command) {
    case Command::kRead: return static_cast<std::uint16_t>(rules.structured ? kFua | kDf : kFua);
    case Command::kWriteZeroes: return static_cast<std::uint16_t>(kFua | kNoHole | kFastZero);
    case Command::kBlockStatus: return static_cast<std::uint16_t>(kFua | kReqOne);
    case Command::kWrite:
    case Command::kFlush:
    case Command::kTrim:
    case Command::kCache: return kFua;
    case Command::kDisconnect: return static_cast<std::uint16_t>(0xffff);  // it has no answer, so it cannot be refused
  }
  return std::nullopt;
}

bool has_range(Command command) { return command != Command::kDisconnect && command != Command::kFlush; }

}  // namespace

void put_u16(std::byte* at, std::uint16_t v) { put(at, v); }
void put_u32(std::byte* at, std::uint32_t v) { put(at, v); }
void put_u64(std::byte* at, std::uint64_t v) { put(at, v); }
std::uint16_t get_u16(const std::byte* at) { return get<std::uint16_t>(at); }
std::uint32_t get_u32(const std::byte* at) { return get<std::uint32_t>(at); }
std::uint64_t get_u64(const std::byte* at) { return get<std::uint64_t>(at); }

BigEndian& BigEndian::u16(std::uint16_t v) {
  out_.resize(out_.size() + sizeof v);
  put(out_.data() + out_.size() - sizeof v, v);
  return *this;
}
BigEndian& BigEndian::u32(std::uint32_t v) {
  out_.resize(out_.size() + sizeof v);
  put(out_.data() + out_.size() - sizeof v, v);
  return *this;
}
BigEndian& BigEndian::u64(std::uint64_t v) {
  out_.resize(out_.size() + sizeof v);
  put(out_.data() + out_.size() - sizeof v, v);
  return *this;
}
BigEndian& BigEndian::text(std::string_view s) {
  const ByteView bytes = as_bytes(s);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return *this;
}

Failure failure_of(Errc code) {
  switch (code) {
    case Errc::kOk: return Failure::kNone;
    case Errc::kPermissionDenied:
    case Errc::kNotPermitted:
    case Errc::kReadOnly: return Failure::kPermission;
    case Errc::kNoMemory: return Failure::kNoMemory;
    case Errc::kInvalidArgument: return Failure::kInvalid;
    case Errc::kNoSpace:
    case Errc::kQuotaExceeded:
    case Errc::kFileTooBig: return Failure::kNoSpace;
    case Errc::kNotSupported: return Failure::kNotSupported;
    case Errc::kCancelled: return Failure::kShutdown;
    default: return Failure::kIo;
  }
}

bool writes(Command command) {
  return command == Command::kWrite || command == Command::kTrim || command == Command::kWriteZeroes;
}

std::optional<Request> decode_request(ByteView in) {
  if (get_u32(in.data()) != kRequestMagic) return std::nullopt;
  Request request;
  request.flags = get_u16(in.data() + 4);
  request.command = static_cast<Command>(get_u16(in.data() + 6));
  request.cookie = get_u64(in.data() + 8);
  request.offset = get_u64(in.data() + 16);
  request.length = get_u32(in.data() + 24);
  return request;
}

Verdict judge(const Request& request, const RequestRules& rules) {
  // The payload of such a write would have to be read before the next request is found.
  if (request.command == Command::kWrite && request.length > kMaxPayload) return {Failure::kInvalid, true};
  const auto flags = flags_of(request, rules);
  if (!flags || (request.flags & ~*flags) != 0) return {Failure::kInvalid};
  if (writes(request.command) && rules.read_only) return {Failure::kPermission};
  if (request.command == Command::kBlockStatus && (!rules.block_status || request.length == 0))
    return {Failure::kInvalid};
  if (request.command == Command::kRead && request.length > kMaxPayload) {
    return {(request.flags & kDf) != 0 ? Failure::kOverflow : Failure::kInvalid};
  }
  if (!has_range(request.command)) return {};
  if (request.offset > rules.size || request.length > rules.size - request.offset) {
    return {writes(request.command) && request.command != Command::kTrim ? Failure::kNoSpace : Failure::kInvalid};
  }
  return {};
}

void put_simple_reply(std::byte* at, std::uint64_t cookie, Failure failure) {
  put_u32(at, kSimpleReplyMagic);
  put_u32(at + 4, static_cast<std::uint32_t>(failure));
  put_u64(at + 8, cookie);
}

void put_chunk(std::byte* at, const ChunkHeader& header) {
  put_u32(at, kStructuredReplyMagic);
  put_u16(at + 4, header.done ? kDone : 0);
  put_u16(at + 6, static_cast<std::uint16_t>(header.type));
  put_u64(at + 8, header.cookie);
  put_u32(at + 16, header.length);
}

void put_error_chunk(std::byte* at, std::uint64_t cookie, Failure failure) {
  put_chunk(at, ChunkHeader{Chunk::kError, true, cookie, 6});
  put_u32(at + kChunkBytes, static_cast<std::uint32_t>(failure));
  put_u16(at + kChunkBytes + 4, 0);
}

}  // namespace spate::nbd
