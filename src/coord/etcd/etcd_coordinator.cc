// SPDX-License-Identifier: Apache-2.0
#include "coord/etcd/etcd_coordinator.h"

#include "base/check.h"
#include "coord/etcd/codec.h"
#include "job/event.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::coord {
namespace {

constexpr long kGood = 200;
constexpr long kBadRequest = 400;

/// The HTTP thread fills it in, and the coroutine awaits it, unless it has given up.
struct Pending {
  explicit Pending(job::Executor& executor) : done(executor) {}
  job::Event done;
  Result<HttpAnswer> answer = Errc::kUnknown;
};

}  // namespace

EtcdCoordinator::EtcdCoordinator(EtcdOptions options, job::Executor& executor)
    : options_(std::move(options)), executor_(executor), http_(options_.tls) {
  SPATE_CHECK(!options_.urls.empty() && !options_.prefix.empty());
}

/// Asks one member. Any answer counts, even a refusal.
job::Task<Result<HttpAnswer>> EtcdCoordinator::ask(std::string path, std::string body, job::StopToken stop) {
  const auto pending = std::make_shared<Pending>(executor_);
  const std::string url = options_.urls[member_ % options_.urls.size()] + path;
  http_.post(url, std::move(body), options_.timeout, [this, pending](Result<HttpAnswer> answer) {
    executor_.post([pending, taken = std::move(answer)]() mutable {
      pending->answer = std::move(taken);
      pending->done.set();
    });
  });
  const auto waited = co_await pending->done.wait(stop);
  if (!waited) co_return Error(Errc::kTimeout, "stopped");  // the request may have arrived
  co_return std::move(pending->answer);
}

job::Task<Result<Snapshot>> EtcdCoordinator::read(std::string prefix, job::StopToken stop) {
  const std::string whole = options_.prefix + prefix;
  Error last(Errc::kUnreachable);
  for (std::size_t tried = 0; tried < options_.urls.size() && !stop.stopped(); ++tried) {
    std::string path = "/v3/kv/range";
    std::string body = range_request(whole);
    auto answer = co_await ask(std::move(path), std::move(body), stop);
    if (answer && answer->status == kGood) co_return range_answer(options_.prefix, answer->body);
    last = answer ? Error(Errc::kTimeout, "etcd: " + error_text(answer->body)) : std::move(answer).error();
    ++member_;
  }
  co_return last;
}

job::Task<Result<std::uint64_t>> EtcdCoordinator::change(Change change, job::StopToken stop) {
  SPATE_CHECK(change.puts.size() + change.erases.size() <= kMaxChangeKeys);
  const std::string request = txn_request(options_.prefix, change);
  Error last(Errc::kUnreachable);
  for (std::size_t tried = 0; tried < options_.urls.size() && !stop.stopped(); ++tried) {
    std::string path = "/v3/kv/txn";
    std::string body = request;
    auto answer = co_await ask(std::move(path), std::move(body), stop);
    if (answer && answer->status == kGood) {
      auto made = txn_answer(answer->body);
      if (made.code() == Errc::kProtocol) co_return Error(Errc::kTimeout, "etcd sent an unreadable answer");
      co_return made;
    }
    if (answer && answer->status == kBadRequest) {
      co_return Error(Errc::kInvalidArgument, "etcd: " + error_text(answer->body));
    }
    last = answer ? Error(Errc::kTimeout, "etcd: " + error_text(answer->body)) : std::move(answer).error();
    ++member_;
    // A change that was sent may have been made. Sending it to another member would make it conflict with itself.
    if (last.code() != Errc::kUnreachable) co_return Error(Errc::kTimeout, last.context());
  }
  co_return last;
}

}  // namespace spate::coord
