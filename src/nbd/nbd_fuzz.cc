// SPDX-License-Identifier: Apache-2.0
// Fuzzer: feeds a handshake of any bytes in pieces and as a whole; both must give the same answers, of bounded size.
// Then decodes requests from the rest.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "nbd/negotiation.h"

namespace spate::nbd {
namespace {

class Exports final : public Catalogue {
 public:
  std::vector<std::string> names() override { return {"", "a", "disk"}; }
  std::optional<ExportInfo> find(std::string_view name) override {
    if (name.size() > 4) return std::nullopt;
    ExportInfo info;
    info.name = name;
    info.description = "file";
    info.size = 1U << 20U;
    return info;
  }
  std::optional<std::string> to_look_at(std::string_view name) override {
    return name.size() == 4 ? std::optional<std::string>(name) : std::nullopt;
  }
};

struct Outcome {
  Bytes out;
  std::size_t used = 0;
  Negotiation::State state = Negotiation::State::kTalking;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

void check_requests(ByteView in) {
  for (; in.size() >= kRequestBytes; in = in.subspan(1)) {
    const auto request = decode_request(in);
    if (!request) continue;
    const RequestRules rules{1U << 20U, (in.front() & std::byte{1}) != std::byte{0}, true, true};
    const Verdict verdict = judge(*request, rules);
    const bool ranged = request->command != Command::kFlush && request->command != Command::kDisconnect;
    SPATE_CHECK(verdict.failure != Failure::kNone || !ranged || request->offset + request->length <= rules.size);
  }
}

/// Feeds `step` bytes at a time, as a connection does.
Outcome talk(ByteView in, std::size_t step, NegotiationPolicy policy) {
  Exports exports;
  Negotiation negotiation(exports, policy);
  Outcome outcome;
  std::size_t have = 0;
  while (negotiation.state() == Negotiation::State::kTalking) {
    Bytes out;
    const std::size_t used = negotiation.consume(in.subspan(outcome.used, have - outcome.used), out);
    SPATE_CHECK(used <= have - outcome.used);
    SPATE_CHECK(have - outcome.used - used < Negotiation::kMaxOptionBytes || used > 0);
    outcome.used += used;
    outcome.out.insert(outcome.out.end(), out.begin(), out.end());
    if (negotiation.state() == Negotiation::State::kStartTls) negotiation.tls_started();
    if (negotiation.state() == Negotiation::State::kLook) {
      negotiation.looked();
      continue;
    }
    if (used > 0) continue;  // it may have ended early because the output is full
    if (have == in.size()) break;
    have = std::min(in.size(), have + step);
  }
  outcome.state = negotiation.state();
  return outcome;
}

}  // namespace
}  // namespace spate::nbd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  if (size == 0) return 0;
  const nbd::NegotiationPolicy policy{(data[0] & 1U) != 0, (data[0] & 2U) != 0};
  const ByteView in(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const nbd::Outcome whole = nbd::talk(in, std::max<std::size_t>(in.size(), 1), policy);
  const nbd::Outcome pieces = nbd::talk(in, 7, policy);
  SPATE_CHECK(whole == pieces);
  nbd::check_requests(in.subspan(whole.used));
  return 0;
}
