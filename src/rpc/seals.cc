// SPDX-License-Identifier: Apache-2.0
#include "rpc/seals.h"

#include <algorithm>

#include "base/checksum.h"

namespace spate::rpc {

Seals::Seals(const wire::SessionKeys& keys, End own)
    : out_(own == End::kInitiator ? keys.initiator_seal : keys.acceptor_seal),
      in_(own == End::kInitiator ? keys.acceptor_seal : keys.initiator_seal) {}

bool Seals::genuine(bmi::Tag tag, ByteView message) {
  if (message.size() < kSize) return false;
  const Umac64::Code wanted = in_.code(tag.value, {message.first(message.size() - kSize)});
  return equal_secret(wanted, message.last(kSize));
}

std::shared_ptr<wire::BulkSeals> bulk_seals(const wire::SessionKeys& keys, End own) {
  const bool initiator = own == End::kInitiator;
  return std::make_shared<wire::BulkSeals>(initiator ? keys.initiator_data : keys.acceptor_data,
                                           initiator ? keys.acceptor_data : keys.initiator_data);
}

bool TagWindow::open(bmi::Tag tag) const {
  const std::uint64_t at = sequence(tag);
  const bool aligned = ((tag.value - first_) & ((1U << kTagBitsPerRequest) - 1)) == 0;
  if (!aligned || at == 0 || at > kLast) return false;
  if (at > newest_) return true;
  if (newest_ - at >= kSize) return false;
  return (seen_[at / kWordBits % kWords] >> (at % kWordBits) & 1U) == 0;
}

void TagWindow::take(bmi::Tag tag) {
  const std::uint64_t at = sequence(tag);
  if (at > newest_) {
    const std::uint64_t words = std::min(at / kWordBits - newest_ / kWordBits, kWords);
    for (std::uint64_t i = 1; i <= words; ++i) seen_[(newest_ / kWordBits + i) % kWords] = 0;
    newest_ = at;
  }
  seen_[at / kWordBits % kWords] |= std::uint64_t{1} << (at % kWordBits);
}

}  // namespace spate::rpc
