// SPDX-License-Identifier: Apache-2.0
#include "rpc/munge_decoder.h"

namespace spate::rpc {

struct MungeDecoder::Job {
  Job(Bytes bytes, job::Executor& executor) : credential(std::move(bytes)), done(executor) {}
  const Bytes credential;
  Result<MungeIdentity> result = Errc::kCancelled;  // the worker thread's until `done` is set
  job::Event done;
};

MungeDecoder::MungeDecoder(std::shared_ptr<const Munge> munge, FsId fs, ServerId self, job::Executor& executor)
    : munge_(std::move(munge)), fs_(fs), self_(self), executor_(executor) {}

MungeDecoder::~MungeDecoder() { stopping_ = true; }

job::Task<Result<MungeIdentity>> MungeDecoder::read(Bytes credential, job::StopToken stop) {
  if (waiting_ >= kMostWaiting) co_return Error::told(Errc::kBusy, "too many credentials of munge at once");
  const auto mine = std::make_shared<Job>(std::move(credential), executor_);
  ++waiting_;
  workers_.run([this, mine] {
    --waiting_;
    if (!stopping_) mine->result = munge_->read(fs_, self_, mine->credential);
    executor_.post([mine] { mine->done.set(); });
  });
  SPATE_CO_TRY(std::ignore, co_await mine->done.wait(stop));
  co_return std::move(mine->result);
}

}  // namespace spate::rpc
