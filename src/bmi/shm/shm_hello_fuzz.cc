// SPDX-License-Identifier: Apache-2.0
// Fuzzer: packets that unauthenticated peers send over a link's socket before they share memory, and text that people
// write: URLs and access policies. The first byte chooses the decoder. Decoded values must encode to the same meaning.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "bmi/shm/endpoint.h"
#include "bmi/shm/hello.h"
#include "bmi/shm/policy.h"

namespace spate::bmi::shm {
namespace {

/// Whether this build speaks the version. Only the first bytes of another version have a known meaning, so the test
/// does not encode them again.
bool spoken(std::uint16_t version) { return version >= kVersionMin && version <= kVersionMax; }

void check_hello(ByteView bytes) {
  const auto hello = decode_hello(bytes);
  if (!hello || !spoken(hello->versions.min) || !spoken(hello->versions.max)) return;
  const auto again = decode_hello(encode(*hello));
  SPATE_CHECK(again && *again == *hello);
}

void check_welcome(ByteView bytes) {
  const auto welcome = decode_welcome(bytes);
  if (!welcome || !spoken(welcome->version)) return;
  const auto again = decode_welcome(encode(*welcome));
  SPATE_CHECK(again && *again == *welcome);
}

void check_note(ByteView bytes) {
  const auto note = decode_note(bytes);
  if (!note) return;
  const auto encoded = encode(*note);
  const auto again = decode_note(encoded);
  SPATE_CHECK(again && *again == *note);
}

void check_url(std::string_view url) {
  const auto endpoint = parse_url(url);
  if (!endpoint) return;
  const auto again = parse_url(url_of(*endpoint));
  SPATE_CHECK(again && again->abstract == endpoint->abstract && again->name == endpoint->name);
}

void check_policy(std::string_view text) {
  const auto policy = parse_policy(text);
  if (!policy) {
    SPATE_CHECK(policy.code() == Errc::kInvalidArgument);
    return;
  }
  SPATE_CHECK(policy->uids.size() <= 256 && policy->admits(0, 1));
}

}  // namespace
}  // namespace spate::bmi::shm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate::bmi::shm;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0: check_hello(spate::as_bytes(text)); break;
    case 1: check_welcome(spate::as_bytes(text)); break;
    case 2: check_note(spate::as_bytes(text)); break;
    case 3: check_url(text); break;
    default: check_policy(text); break;
  }
  return 0;
}
