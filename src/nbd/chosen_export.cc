// SPDX-License-Identifier: Apache-2.0
#include "nbd/chosen_export.h"

#include <algorithm>

#include "log/log.h"

namespace spate::nbd {

std::uint64_t ChosenExport::size_now() {
  if (!size_now_) size_now_ = device_.size();
  return *size_now_;
}

Verdict ChosenExport::judge(const Request& request) {
  RequestRules rules = rules_;
  if (writes(request.command)) rules.size = std::min(rules.size, size_now());
  const Verdict verdict = nbd::judge(request, rules);
  if (verdict.failure == Failure::kNone || request.offset + request.length <= rules_.size) return verdict;
  const std::uint64_t size = size_now();
  if (size <= rules_.size) return verdict;
  SPATE_LOG("nbd", debug, "export is larger than the client was told told={} size={}", rules_.size, size);
  rules_.size = size;
  return nbd::judge(request, rules_);
}

job::Task<Failure> ChosenExport::flush() {
  const auto flushed = co_await device_.flush();
  // Another connection's flush may have received the error about this client's lost writes.
  if (flushed && device_.losses() != losses_at_start_) co_return Failure::kIo;
  co_return failure_of(flushed.code());
}

std::size_t ChosenExport::data_header_bytes() const {
  return rules_.structured ? kChunkBytes + sizeof(std::uint64_t) : kSimpleReplyBytes;
}

void ChosenExport::put_data_header(std::byte* at, const Request& request, bool done) const {
  if (!rules_.structured) return put_simple_reply(at, request.cookie, Failure::kNone);
  put_chunk(at, ChunkHeader{Chunk::kOffsetData, done, request.cookie, request.length + 8});
  put_u64(at + kChunkBytes, request.offset);
}

}  // namespace spate::nbd
