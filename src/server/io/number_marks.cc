// SPDX-License-Identifier: Apache-2.0
#include "server/io/number_marks.h"

#include <algorithm>

namespace spate::io {
namespace {

// A mark is rounded up by less than half of what the meta server's counter sets aside at once. So it passes the
// counter only if that one has gone back.
constexpr std::uint64_t kFilesAhead = 16384;
constexpr std::uint64_t kClientsAhead = 256;

}  // namespace

job::Task<Result<void>> NumberMarks::load() {
  job::Transaction transaction = keyval_.begin();
  const Bytes key = number_marks_key();
  const trove::KeyvalCompletion got = co_await transaction.get(key);
  if (got.status != Errc::kOk) co_return got.status;
  if (got.value) {
    SPATE_CO_TRY(marks_, decode_number_marks(*got.value));
  }
  co_return Result<void>();
}

job::Task<Result<void>> NumberMarks::note(Handle handle) {
  const std::uint64_t number = number_of(handle);
  if (number <= marks_.files) co_return Result<void>();
  auto raised = co_await raise(NumberMarksRecord{number, 0});
  co_return raised;
}

job::Task<Result<void>> NumberMarks::note(ClientId client) {
  if (client.value <= marks_.clients) co_return Result<void>();
  auto raised = co_await raise(NumberMarksRecord{0, client.value});
  co_return raised;
}

job::Task<Result<void>> NumberMarks::raise(NumberMarksRecord least) {
  SPATE_CO_TRY(const job::Semaphore::Units turn, co_await turn_.acquire(1));
  NumberMarksRecord next = marks_;
  if (least.files > next.files) next.files = least.files + kFilesAhead;
  if (least.clients > next.clients) next.clients = least.clients + kClientsAhead;
  if (next == marks_) co_return Result<void>();  // raised while this waited for its turn
  job::Transaction transaction = keyval_.begin();
  transaction.put(number_marks_key(), encode(next));
  const trove::KeyvalCompletion done = co_await transaction.commit(trove::Durability::kMachine);
  if (done.status != Errc::kOk) co_return done.status;
  marks_ = next;
  co_return Result<void>();
}

}  // namespace spate::io
