// SPDX-License-Identifier: Apache-2.0
#include "nbd/negotiation.h"

#include <algorithm>
#include <utility>

namespace spate::nbd {
namespace {

constexpr std::size_t kOptionHeaderBytes = 16;
constexpr std::size_t kReservedZeroes = 124;

void reply(Bytes& out, Option option, OptionReply type, std::string_view text = {}) {
  BigEndian(out).u64(kOptionReplyMagic).u32(static_cast<std::uint32_t>(option)).u32(static_cast<std::uint32_t>(type));
  BigEndian(out).u32(static_cast<std::uint32_t>(text.size())).text(text);
}

/// Reads from an option's data. After the first short read, everything is empty and ok() is false.
class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}
  std::uint16_t u16() {
    const ByteView at = take(2);
    return at.empty() ? std::uint16_t{0} : get_u16(at.data());
  }
  std::uint32_t u32() {
    const ByteView at = take(4);
    return at.empty() ? 0 : get_u32(at.data());
  }
  /// A u32 length, then the text. It fails if the text is longer than the protocol allows or contains a NUL.
  std::string_view text() {
    const std::size_t size = u32();
    if (size > kMaxString) ok_ = false;
    const std::string_view read = as_text(take(size));
    if (read.find('\0') != std::string_view::npos) ok_ = false;
    return read;
  }
  std::size_t remaining() const { return in_.size(); }
  bool ok() const { return ok_; }
  /// Whether every read succeeded and nothing is left.
  bool finished() const { return ok_ && in_.empty(); }

 private:
  ByteView take(std::size_t size) {
    if (!ok_ || size > in_.size()) {
      ok_ = false;
      return {};
    }
    const ByteView taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }
  ByteView in_;
  bool ok_ = true;
};

void info_export(Bytes& out, Option option, const ExportInfo& info, bool structured) {
  Bytes data;
  const auto flags = static_cast<std::uint16_t>(structured ? info.flags | kSendDf : info.flags);
  BigEndian(data).u16(static_cast<std::uint16_t>(Info::kExport)).u64(info.size).u16(flags);
  reply(out, option, OptionReply::kInfo, as_text(data));
}

void info_block_size(Bytes& out, Option option, const ExportInfo& info) {
  Bytes data;
  BigEndian(data).u16(static_cast<std::uint16_t>(Info::kBlockSize)).u32(info.minimum_block);
  BigEndian(data).u32(info.preferred_block).u32(info.maximum_block);
  reply(out, option, OptionReply::kInfo, as_text(data));
}

void info_text(Bytes& out, Option option, Info type, std::string_view text) {
  Bytes data;
  BigEndian(data).u16(static_cast<std::uint16_t>(type)).text(text);
  reply(out, option, OptionReply::kInfo, as_text(data));
}

}  // namespace

void Negotiation::begin(Bytes& out) {
  BigEndian(out).u64(kInitMagic).u64(kOptionMagic).u16(kFixedNewstyle | kNoZeroes);
}

std::size_t Negotiation::consume(ByteView in, Bytes& out) {
  const std::size_t whole = in.size();
  // Short questions may have long answers: send those before handling the next question.
  while (state_ == State::kTalking && out.size() < kMaxOptionBytes) {
    const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, in.size()));
    skip_ -= skipped;
    in = in.subspan(skipped);
    if (!flags_taken_) {
      if (in.size() < 4) break;
      take_client_flags(get_u32(in.data()));
      in = in.subspan(4);
      continue;
    }
    if (in.size() < kOptionHeaderBytes) break;
    if (get_u64(in.data()) != kOptionMagic) {
      state_ = State::kEnd;
      break;
    }
    const auto option = static_cast<Option>(get_u32(in.data() + 8));
    const std::size_t size = get_u32(in.data() + 12);
    if (size > kMaxOptionBytes - kOptionHeaderBytes) {
      skip_ = size;
      in = in.subspan(kOptionHeaderBytes);
      if (option == Option::kExportName)
        state_ = State::kEnd;
      else
        reply(out, option, OptionReply::kErrTooBig, "this option is too long");
      continue;
    }
    if (in.size() < kOptionHeaderBytes + size) break;
    if (!std::exchange(looked_, false) && wants_look(option, in.subspan(kOptionHeaderBytes, size))) {
      state_ = State::kLook;
      break;
    }
    take_option(option, in.subspan(kOptionHeaderBytes, size), out);
    in = in.subspan(kOptionHeaderBytes + size);
  }
  return whole - in.size();
}

void Negotiation::tls_started() {
  tls_ = true;
  structured_ = false;
  allocation_of_.reset();
  state_ = State::kTalking;
}

void Negotiation::looked() {
  looked_ = true;
  state_ = State::kTalking;
}

/// Whether the option names an export whose size must be looked up before the answer.
bool Negotiation::wants_look(Option option, ByteView data) {
  if (policy_.tls_required && !tls_) return false;
  std::optional<std::string> name;
  if (option == Option::kExportName && data.size() <= kMaxString) name = catalogue_.to_look_at(as_text(data));
  if (option == Option::kInfo || option == Option::kGo) {
    Reader reader(data);
    const std::string_view asked = reader.text();
    if (reader.ok()) name = catalogue_.to_look_at(asked);
  }
  if (!name) return false;
  wanted_ = *std::move(name);
  return true;
}

void Negotiation::take_client_flags(std::uint32_t flags) {
  constexpr std::uint32_t kKnown = kFixedNewstyle | kNoZeroes;
  if ((flags & ~kKnown) != 0) state_ = State::kEnd;
  no_zeroes_ = (flags & kNoZeroes) != 0;
  flags_taken_ = true;
}

void Negotiation::take_option(Option option, ByteView data, Bytes& out) {
  if (option == Option::kAbort) {
    reply(out, option, OptionReply::kAck);
    state_ = State::kEnd;
    return;
  }
  if (option == Option::kStartTls) return start_tls(data, out);
  if (policy_.tls_required && !tls_) {
    if (option == Option::kExportName)
      state_ = State::kEnd;
    else
      reply(out, option, OptionReply::kErrTlsRequired, "this server wants TLS first");
    return;
  }
  take_negotiable(option, data, out);
}

void Negotiation::take_negotiable(Option option, ByteView data, Bytes& out) {
  switch (option) {
    case Option::kExportName: return export_name(data, out);
    case Option::kList: return list(data, out);
    case Option::kInfo:
    case Option::kGo: return info_or_go(option, data, out);
    case Option::kStructuredReply: return structured_reply(data, out);
    case Option::kListMetaContext:
    case Option::kSetMetaContext: return meta_context(option, data, out);
    default: return reply(out, option, OptionReply::kErrUnsupported, "unknown option");
  }
}

void Negotiation::choose(ExportInfo info) {
  chosen_ = std::move(info);
  state_ = State::kTransmission;
}

void Negotiation::export_name(ByteView data, Bytes& out) {
  auto info = data.size() > kMaxString ? std::nullopt : catalogue_.find(as_text(data));
  if (!info) {
    state_ = State::kEnd;  // this option has no answer for a failure
    return;
  }
  const auto flags = static_cast<std::uint16_t>(structured_ ? info->flags | kSendDf : info->flags);
  BigEndian(out).u64(info->size).u16(flags);
  if (!no_zeroes_) out.resize(out.size() + kReservedZeroes);
  choose(*std::move(info));
}

void Negotiation::list(ByteView data, Bytes& out) {
  if (!data.empty()) return reply(out, Option::kList, OptionReply::kErrInvalid, "LIST takes no data");
  for (const std::string& name : catalogue_.names()) {
    Bytes entry;
    BigEndian(entry).u32(static_cast<std::uint32_t>(name.size())).text(name);
    reply(out, Option::kList, OptionReply::kServer, as_text(entry));
  }
  reply(out, Option::kList, OptionReply::kAck);
}

void Negotiation::start_tls(ByteView data, Bytes& out) {
  if (!data.empty()) return reply(out, Option::kStartTls, OptionReply::kErrInvalid, "STARTTLS takes no data");
  if (tls_) return reply(out, Option::kStartTls, OptionReply::kErrInvalid, "TLS is running already");
  if (!policy_.tls_offered)
    return reply(out, Option::kStartTls, OptionReply::kErrPolicy, "this server has no certificate and no keys");
  reply(out, Option::kStartTls, OptionReply::kAck);
  state_ = State::kStartTls;
}

void Negotiation::structured_reply(ByteView data, Bytes& out) {
  if (!data.empty())
    return reply(out, Option::kStructuredReply, OptionReply::kErrInvalid, "STRUCTURED_REPLY takes no data");
  structured_ = true;
  reply(out, Option::kStructuredReply, OptionReply::kAck);
}

void Negotiation::info_or_go(Option option, ByteView data, Bytes& out) {
  Reader reader(data);
  const std::string_view name = reader.text();
  const std::size_t count = reader.u16();
  if (reader.remaining() != 2 * count) return reply(out, option, OptionReply::kErrInvalid, "malformed option");
  bool wants_name = false;
  bool wants_description = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto type = static_cast<Info>(reader.u16());
    wants_name |= type == Info::kName;
    wants_description |= type == Info::kDescription;
  }
  if (!reader.finished()) return reply(out, option, OptionReply::kErrInvalid, "malformed option");
  auto info = catalogue_.find(name);
  if (!info) return reply(out, option, OptionReply::kErrUnknown, "there is no such export");
  info_export(out, option, *info, structured_);
  info_block_size(out, option, *info);
  if (wants_name) info_text(out, option, Info::kName, info->name);
  if (wants_description && !info->description.empty()) info_text(out, option, Info::kDescription, info->description);
  reply(out, option, OptionReply::kAck);
  if (option == Option::kGo) choose(*std::move(info));
}

void Negotiation::meta_context(Option option, ByteView data, Bytes& out) {
  const bool set = option == Option::kSetMetaContext;
  if (set) allocation_of_.reset();  // whatever the result, an earlier selection is replaced
  if (!structured_) return reply(out, option, OptionReply::kErrInvalid, "negotiate structured replies first");
  Reader reader(data);
  const std::string_view name = reader.text();
  const std::uint32_t count = reader.u32();
  bool wanted = !set && count == 0;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    const std::string_view query = reader.text();
    wanted |= query == kBaseAllocation || (!set && query == "base:");
  }
  if (!reader.finished()) return reply(out, option, OptionReply::kErrInvalid, "malformed option");
  const auto info = catalogue_.find(name);
  if (!info) return reply(out, option, OptionReply::kErrUnknown, "there is no such export");
  if (wanted) {
    Bytes context;
    BigEndian(context).u32(set ? kAllocationId : 0).text(kBaseAllocation);
    reply(out, option, OptionReply::kMetaContext, as_text(context));
    if (set) allocation_of_ = info->name;
  }
  reply(out, option, OptionReply::kAck);
}

}  // namespace spate::nbd
