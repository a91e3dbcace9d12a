// SPDX-License-Identifier: Apache-2.0
// The NBD protocol's numbers and messages: docs/references.md, "NBD". Big-endian.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"

namespace spate::nbd {

inline constexpr std::uint64_t kInitMagic = 0x4e42444d41474943;    // "NBDMAGIC"
inline constexpr std::uint64_t kOptionMagic = 0x49484156454f5054;  // "IHAVEOPT"
inline constexpr std::uint64_t kOptionReplyMagic = 0x0003e889045565a9;
inline constexpr std::uint32_t kRequestMagic = 0x25609513;
inline constexpr std::uint32_t kSimpleReplyMagic = 0x67446698;
inline constexpr std::uint32_t kStructuredReplyMagic = 0x668e33ef;

// Handshake flags of the server and of the client's answer.
inline constexpr std::uint16_t kFixedNewstyle = 1U << 0U;
inline constexpr std::uint16_t kNoZeroes = 1U << 1U;

/// Longest string that the protocol allows (names, descriptions, queries), bytes.
inline constexpr std::size_t kMaxString = 4096;
/// Largest payload of a request or reply, bytes: the maximum in the block size information, and the size that every
/// client may assume.
inline constexpr std::uint32_t kMaxPayload = 32U << 20U;

enum class Option : std::uint32_t {
  kExportName = 1,
  kAbort = 2,
  kList = 3,
  kStartTls = 5,
  kInfo = 6,
  kGo = 7,
  kStructuredReply = 8,
  kListMetaContext = 9,
  kSetMetaContext = 10,
};

enum class OptionReply : std::uint32_t {
  kAck = 1,
  kServer = 2,
  kInfo = 3,
  kMetaContext = 4,
  kErrUnsupported = (1U << 31U) + 1,
  kErrPolicy = (1U << 31U) + 2,
  kErrInvalid = (1U << 31U) + 3,
  kErrTlsRequired = (1U << 31U) + 5,
  kErrUnknown = (1U << 31U) + 6,
  kErrShutdown = (1U << 31U) + 7,
  kErrTooBig = (1U << 31U) + 9,
};

enum class Info : std::uint16_t { kExport = 0, kName = 1, kDescription = 2, kBlockSize = 3 };

// Transmission flags.
inline constexpr std::uint16_t kHasFlags = 1U << 0U;
inline constexpr std::uint16_t kReadOnly = 1U << 1U;
inline constexpr std::uint16_t kSendFlush = 1U << 2U;
inline constexpr std::uint16_t kSendFua = 1U << 3U;
inline constexpr std::uint16_t kSendTrim = 1U << 5U;
inline constexpr std::uint16_t kSendWriteZeroes = 1U << 6U;
inline constexpr std::uint16_t kSendDf = 1U << 7U;
inline constexpr std::uint16_t kCanMultiConn = 1U << 8U;
inline constexpr std::uint16_t kSendCache = 1U << 10U;
inline constexpr std::uint16_t kSendFastZero = 1U << 11U;

enum class Command : std::uint16_t {
  kRead = 0,
  kWrite = 1,
  kDisconnect = 2,
  kFlush = 3,
  kTrim = 4,
  kCache = 5,
  kWriteZeroes = 6,
  kBlockStatus = 7,
};

/// Whether the command changes the export's bytes.
bool writes(Command command);

// Command flags.
inline constexpr std::uint16_t kFua = 1U << 0U;
inline constexpr std::uint16_t kNoHole = 1U << 1U;
inline constexpr std::uint16_t kDf = 1U << 2U;
inline constexpr std::uint16_t kReqOne = 1U << 3U;
inline constexpr std::uint16_t kFastZero = 1U << 4U;

enum class Chunk : std::uint16_t {
  kNone = 0,
  kOffsetData = 1,
  kBlockStatus = 5,
  kError = (1U << 15U) + 1,
};
inline constexpr std::uint16_t kDone = 1U << 0U;

// States of base:allocation.
inline constexpr std::uint32_t kHole = 1U << 0U;
inline constexpr std::uint32_t kZero = 1U << 1U;
inline constexpr std::string_view kBaseAllocation = "base:allocation";

/// The error values that the protocol defines.
enum class Failure : std::uint32_t {
  kNone = 0,
  kPermission = 1,
  kIo = 5,
  kNoMemory = 12,
  kInvalid = 22,
  kNoSpace = 28,
  kOverflow = 75,
  kNotSupported = 95,
  kShutdown = 108,
};
/// The protocol's error for a code.
Failure failure_of(Errc code);

/// A received request; its fields may have any value.
struct Request {
  std::uint16_t flags = 0;
  Command command = Command::kRead;  // or an unknown number
  std::uint64_t cookie = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};
inline constexpr std::size_t kRequestBytes = 28;
inline constexpr std::size_t kSimpleReplyBytes = 16;
inline constexpr std::size_t kChunkBytes = 20;

/// Nothing when the magic number is wrong. `in` holds at least kRequestBytes.
std::optional<Request> decode_request(ByteView in);

/// The properties of the export and of the connection against which a request is checked.
struct RequestRules {
  std::uint64_t size = 0;  // of the export, bytes
  bool read_only = false;
  bool structured = false;
  bool block_status = false;
};
/// The result of the checks before anything is done: an unknown command, flags that it does not accept, a range outside
/// the export, a payload that is too large. `connection_lost`: the following bytes cannot be recognised as requests any
/// more.
struct Verdict {
  Failure failure = Failure::kNone;
  bool connection_lost = false;
};
Verdict judge(const Request& request, const RequestRules& rules);

/// Writes a big-endian number at an address that has room for it.
void put_u16(std::byte* at, std::uint16_t v);
void put_u32(std::byte* at, std::uint32_t v);
void put_u64(std::byte* at, std::uint64_t v);
std::uint16_t get_u16(const std::byte* at);
std::uint32_t get_u32(const std::byte* at);
std::uint64_t get_u64(const std::byte* at);

/// Appends numbers and text to bytes that the caller owns.
class BigEndian {
 public:
  explicit BigEndian(Bytes& out) : out_(out) {}
  BigEndian& u16(std::uint16_t v);
  BigEndian& u32(std::uint32_t v);
  BigEndian& u64(std::uint64_t v);
  BigEndian& text(std::string_view s);

 private:
  Bytes& out_;
};

/// Writes a simple reply's header (kSimpleReplyBytes).
void put_simple_reply(std::byte* at, std::uint64_t cookie, Failure failure);
/// A structured reply's chunk header (kChunkBytes); `length` is that of the payload that follows.
struct ChunkHeader {
  Chunk type = Chunk::kNone;
  bool done = true;
  std::uint64_t cookie = 0;
  std::uint32_t length = 0;
};
void put_chunk(std::byte* at, const ChunkHeader& header);
/// A whole error chunk without text.
inline constexpr std::size_t kErrorChunkBytes = kChunkBytes + 6;
void put_error_chunk(std::byte* at, std::uint64_t cookie, Failure failure);

}  // namespace spate::nbd
