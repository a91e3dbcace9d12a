// SPDX-License-Identifier: Apache-2.0
// For nbd_connection_fuzz.cc: makes a client's side of a session from the fuzzer's input, and checks the server's side.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "nbd/connection.h"
#include "nbd/negotiation.h"

namespace spate::nbd::fuzz {

inline constexpr std::size_t kDeviceBytes = 1UL << 20U;
inline constexpr std::size_t kDataBytes = kDeviceBytes / 2;  // the rest is a hole
/// Limit for the bytes of all reads, and of all generated payloads, so that a run takes milliseconds.
inline constexpr std::size_t kMaxMoved = 2UL << 20U;

/// The export's bytes before any write.
inline ByteView content() {
  static const Bytes all = [] {
    Bytes bytes(kDeviceBytes);
    for (std::size_t i = 0; i < kDataBytes; ++i) bytes[i] = static_cast<std::byte>(i ^ (i >> 8U));
    return bytes;
  }();
  return all;
}

class Exports final : public Catalogue {
 public:
  explicit Exports(bool read_only) : read_only_(read_only) {}
  std::vector<std::string> names() override { return {"disk", "a"}; }
  std::optional<ExportInfo> find(std::string_view name) override {
    if (name != "disk" && name != "a" && !name.empty()) return std::nullopt;
    ExportInfo info;
    info.name = name.empty() ? "disk" : name;
    info.description = "a file in memory";
    info.size = kDeviceBytes;
    info.flags = kHasFlags | kSendFlush | kSendFua | kCanMultiConn | kSendCache;
    info.flags |= read_only_ ? kReadOnly : kSendTrim | kSendWriteZeroes | kSendFastZero;
    return info;
  }
  std::optional<std::string> to_look_at(std::string_view name) override {
    return name == "a" ? std::optional<std::string>("a") : std::nullopt;
  }

 private:
  const bool read_only_;
};

/// The settings of a run, from the first bytes of the input.
struct Script {
  explicit Script(ByteView in) {
    const auto flags = static_cast<unsigned>(in[0]) | static_cast<unsigned>(in[1]) << 8U;
    const auto flag = [flags](unsigned bit) { return (flags >> bit & 1U) != 0; };
    policy = {flag(0), flag(1)};
    read_only = flag(2);
    payloads_made_up = flag(3);
    later = flag(4);
    slow_reader = flag(5);
    shrinks = flag(6);
    goes_away = flag(7);
    server_finishes = flag(8);
    waits_in_handshake = flag(9);
    constexpr std::array<std::uint32_t, 4> kSendFileFrom = {kSendFileFromUnix, 1, kSendFileFromTcp, ~0U};
    send_file_from = kSendFileFrom[flags >> 10U & 3U];
    const auto step = static_cast<std::size_t>(in[2]);
    at_once = 1 + step * step * 4;
  }
  static constexpr std::size_t kBytes = 3;
  NegotiationPolicy policy;
  bool read_only = false;
  bool payloads_made_up = false;
  bool later = false;
  bool slow_reader = false;  // reads only when nothing else can happen
  // In the middle of the client's bytes:
  bool shrinks = false;          // the file becomes shorter
  bool server_finishes = false;  // the server ends
  // After the client's last byte:
  bool goes_away = false;           // closes the connection without reading the answers
  bool waits_in_handshake = false;  // stays silent, if it has chosen no export
  std::uint32_t send_file_from = 0;
  std::size_t at_once = 1;  // bytes
};

struct Asked {
  Request request;
  Failure verdict = Failure::kNone;
  std::uint64_t data_bytes = 0;  // bytes of data received
  bool answered = false;
};

/// The client's whole side, and the answers that the server must give.
struct FuzzSession {
  Bytes bytes;
  /// Positions in `bytes` where the client waits for the server's answers before it goes on (STARTTLS).
  std::vector<std::size_t> rests;
  Bytes handshake;  // the expected answers
  bool transmission = false;
  RequestRules rules;
  std::vector<Asked> asked;
  bool dropped = false;  // the server may end the connection without an answer
  bool changes = false;  // some request changes the export's bytes
};

class Writer {
 public:
  Writer(const Script& script, ByteView in) : script_(script), in_(in) {}

  FuzzSession write() {
    Exports exports(script_.read_only);
    Negotiation negotiation(exports, script_.policy);
    Negotiation::begin(session_.handshake);
    while (negotiation.state() == Negotiation::State::kTalking) {
      Bytes out;
      const std::size_t used = negotiation.consume(in_, out);
      take(used);
      session_.handshake.insert(session_.handshake.end(), out.begin(), out.end());
      if (negotiation.state() == Negotiation::State::kLook) {
        negotiation.looked();
      } else if (negotiation.state() == Negotiation::State::kStartTls) {
        negotiation.tls_started();
        session_.rests.push_back(session_.bytes.size());
        session_.dropped = true;  // with many answers waiting, unread ones precede it
      } else if (used == 0 && out.empty()) {
        break;
      }
    }
    if (negotiation.state() == Negotiation::State::kTransmission) {
      session_.transmission = true;
      session_.rules = {kDeviceBytes, script_.read_only, negotiation.structured(), negotiation.block_status()};
      while (in_.size() >= kRequestBytes && request()) {
      }
    }
    take(in_.size());
    return std::move(session_);
  }

 private:
  void take(std::size_t n) {
    session_.bytes.insert(session_.bytes.end(), in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(n));
    in_ = in_.subspan(n);
  }
  /// False: this was the last request that the server accepts.
  bool request() {
    const auto request = decode_request(in_);
    if (!request) {
      session_.dropped = true;
      return false;
    }
    const Verdict verdict = judge(*request, session_.rules);
    const bool write = request->command == Command::kWrite;
    const bool read = request->command == Command::kRead && verdict.failure == Failure::kNone;
    if (!verdict.connection_lost && (read || (write && script_.payloads_made_up))) moved_ += request->length;
    if (moved_ > kMaxMoved) {
      in_ = {};
      return false;
    }
    take(kRequestBytes);
    put_u64(session_.bytes.data() + session_.bytes.size() - kRequestBytes + 8, session_.asked.size());
    const bool changes = write || request->command == Command::kTrim || request->command == Command::kWriteZeroes;
    if (changes && verdict.failure == Failure::kNone) session_.changes = true;
    if (request->command == Command::kDisconnect) return false;
    if (write && !verdict.connection_lost && !payload(request->length)) return false;
    Request numbered = *request;
    numbered.cookie = session_.asked.size();
    session_.asked.push_back(Asked{numbered, verdict.failure});
    return !verdict.connection_lost;
  }
  /// False: the input does not have all of it.
  bool payload(std::size_t size) {
    if (script_.payloads_made_up) {
      session_.bytes.resize(session_.bytes.size() + size, std::byte{0x5a});
      return true;
    }
    const bool whole = in_.size() >= size;
    take(std::min(in_.size(), size));
    return whole;
  }

  const Script& script_;
  ByteView in_;
  FuzzSession session_;
  std::size_t moved_ = 0;
};

/// Parses the server's bytes of the transmission phase. A malformed answer is a bug.
class Reader {
 public:
  /// `content_known`: no request has changed the data. `may_fail`: the server may refuse valid requests.
  Reader(FuzzSession& session, ByteView in, bool content_known, bool may_fail)
      : session_(session), in_(in), content_known_(content_known), may_fail_(may_fail) {}

  /// Returns whether it ended with a whole reply.
  bool read() {
    while (in_.size() >= kSimpleReplyBytes) {
      const std::uint32_t magic = get_u32(in_.data());
      SPATE_CHECK(magic == kSimpleReplyMagic || magic == kStructuredReplyMagic);
      if (magic == kStructuredReplyMagic && in_.size() < kChunkBytes) return false;
      if (!(magic == kSimpleReplyMagic ? simple() : chunk())) return false;
    }
    return in_.empty();
  }

 private:
  static bool in_chunks(const FuzzSession& session, const Asked& asked) {
    const Command command = asked.request.command;
    return session.rules.structured && (command == Command::kRead || command == Command::kBlockStatus);
  }
  Asked& asked(std::uint64_t cookie) {
    SPATE_CHECK(cookie < session_.asked.size());
    Asked& asked = session_.asked[cookie];
    SPATE_CHECK(!asked.answered);
    return asked;
  }
  void end(Asked& asked, Failure failure) const {
    asked.answered = true;
    if (asked.verdict != Failure::kNone) SPATE_CHECK(failure == asked.verdict);
    const Command command = asked.request.command;
    const bool must = command != Command::kTrim && command != Command::kWriteZeroes && !may_fail_;
    if (asked.verdict == Failure::kNone && must) SPATE_CHECK(failure == Failure::kNone);
  }
  void check_data(std::uint64_t offset, ByteView bytes) const {
    if (!content_known_ || bytes.empty()) return;
    SPATE_CHECK(std::memcmp(bytes.data(), content().subspan(offset, bytes.size()).data(), bytes.size()) == 0);
  }
  bool simple() {
    Asked& one = asked(get_u64(in_.data() + 8));
    SPATE_CHECK(!in_chunks(session_, one));
    const auto failure = static_cast<Failure>(get_u32(in_.data() + 4));
    in_ = in_.subspan(kSimpleReplyBytes);
    const bool has_data = one.request.command == Command::kRead && failure == Failure::kNone;
    const std::size_t size = has_data ? one.request.length : 0;
    if (in_.size() < size) return false;
    end(one, failure);
    check_data(one.request.offset, in_.first(size));
    in_ = in_.subspan(size);
    return true;
  }
  bool chunk() {
    Asked& one = asked(get_u64(in_.data() + 8));
    SPATE_CHECK(in_chunks(session_, one));
    const bool done = (get_u16(in_.data() + 4) & kDone) != 0;
    const auto type = static_cast<Chunk>(get_u16(in_.data() + 6));
    const std::size_t size = get_u32(in_.data() + 16);
    SPATE_CHECK(size <= kDeviceBytes + 8);
    if (in_.size() < kChunkBytes + size) return false;
    const ByteView payload = in_.subspan(kChunkBytes, size);
    in_ = in_.subspan(kChunkBytes + size);
    Failure failure = Failure::kNone;
    switch (type) {
      case Chunk::kNone: SPATE_CHECK(size == 0 && done); break;
      case Chunk::kOffsetData: data_chunk(one, payload); break;
      case Chunk::kBlockStatus: status_chunk(one, payload); break;
      case Chunk::kError:
        SPATE_CHECK(size >= 6 && done);
        failure = static_cast<Failure>(get_u32(payload.data()));
        break;
      default: SPATE_CHECK(false);
    }
    if (!done) return true;
    end(one, failure);
    const bool whole = one.request.command != Command::kRead || one.data_bytes == one.request.length;
    SPATE_CHECK(failure != Failure::kNone || whole);
    return true;
  }
  void data_chunk(Asked& one, ByteView payload) const {
    SPATE_CHECK(one.request.command == Command::kRead && payload.size() > 8);
    SPATE_CHECK(get_u64(payload.data()) == one.request.offset + one.data_bytes);
    SPATE_CHECK(payload.size() - 8 <= one.request.length - one.data_bytes);
    check_data(one.request.offset + one.data_bytes, payload.subspan(8));
    one.data_bytes += payload.size() - 8;
  }
  void status_chunk(const Asked& one, ByteView payload) const {
    SPATE_CHECK(one.request.command == Command::kBlockStatus && payload.size() >= 12 && payload.size() % 8 == 4);
    SPATE_CHECK(get_u32(payload.data()) == Negotiation::kAllocationId);
    std::uint64_t sum = 0;
    for (ByteView rest = payload.subspan(4); !rest.empty(); rest = rest.subspan(8)) {
      SPATE_CHECK(get_u32(rest.data()) > 0);
      sum += get_u32(rest.data());
    }
    SPATE_CHECK(sum <= one.request.length);
    if ((one.request.flags & kReqOne) != 0) SPATE_CHECK(payload.size() == 12);
  }

  FuzzSession& session_;
  ByteView in_;
  const bool content_known_;
  const bool may_fail_;
};

}  // namespace spate::nbd::fuzz
