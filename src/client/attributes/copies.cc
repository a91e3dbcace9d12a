// SPDX-License-Identifier: Apache-2.0
#include "client/attributes/copies.h"

#include <memory>

#include "job/event.h"

namespace spate::client {

job::Task<Result<void>> copies_dropped(Copies* copies, job::Executor& executor, job::StopToken stop) {
  if (copies == nullptr) co_return Result<void>();
  // The dropping thread shares the event. It may outlive this wait, but not the executor.
  const auto dropped = std::make_shared<job::Event>(executor);
  UniqueFunction<void()> tell = [dropped, &executor] { executor.post([dropped] { dropped->set(); }); };
  if (!copies->when_dropped(std::move(tell))) co_return Result<void>();
  auto waited = co_await dropped->wait(stop);
  co_return waited;
}

}  // namespace spate::client
