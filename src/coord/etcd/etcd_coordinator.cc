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

/// Why no member has carried the request out. A refusal tells more than that another member does not answer.
Error error_of(Result<HttpAnswer> answer, Error before) {
  if (answer) return Error::told(Errc::kTryAgain, "etcd: " + error_text(answer->body));
  if (before.code() == Errc::kTryAgain) return before;
  return std::move(answer).error();
}

/// All members are asked at the same time. It is done with the first good answer, or when all have failed.
struct FirstAnswer {
  FirstAnswer(job::Executor& executor, std::size_t members) : done(executor), left(members) {}
  void take(Result<HttpAnswer> from_one) {
    --left;
    if (answer) return;
    if (from_one && from_one->status == kGood) {
      answer = std::move(from_one->body);
    } else {
      answer = error_of(std::move(from_one), answer.error());
    }
    if (answer || left == 0) done.set();
  }
  job::Event done;
  std::size_t left;
  Result<std::string> answer = Errc::kUnreachable;
};

}  // namespace

EtcdCoordinator::EtcdCoordinator(EtcdOptions options, job::Executor& executor)
    : options_(std::move(options)), executor_(executor), http_(options_.tls) {
  SPATE_CHECK(!options_.urls.empty() && !options_.prefix.empty());
}

/// Asks one member. Any answer counts, even a refusal.
job::Task<Result<HttpAnswer>> EtcdCoordinator::ask(std::string path, std::string body, job::StopToken stop) {
  std::string url = options_.urls[member_ % options_.urls.size()] + path;
  return ask_at(std::move(url), std::move(body), options_.timeout, std::move(stop));
}

job::Task<Result<HttpAnswer>> EtcdCoordinator::ask_at(std::string url, std::string body, Duration timeout,
                                                      job::StopToken stop) {
  const auto pending = std::make_shared<Pending>(executor_);
  http_.post(url, std::move(body), timeout, [this, pending](Result<HttpAnswer> answer) {
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

/// Asks one member after the other until one carries the request out. That a request of these may be carried out twice
/// does no harm: the second time etcd refuses it.
job::Task<Result<std::string>> EtcdCoordinator::ask_all(std::string path, std::string body, job::StopToken stop) {
  Error last(Errc::kUnreachable);
  for (std::size_t tried = 0; tried < options_.urls.size() && !stop.stopped(); ++tried) {
    auto answer = co_await ask(path, body, stop);
    if (answer && answer->status == kGood) co_return std::move(answer->body);
    last = error_of(std::move(answer), std::move(last));
    ++member_;
  }
  co_return last;
}

job::Task<Result<std::vector<Voter>>> EtcdCoordinator::list(job::StopToken stop) {
  const auto first = std::make_shared<FirstAnswer>(executor_, options_.urls.size());
  for (const std::string& url : options_.urls) {
    http_.post(url + "/v3/cluster/member/list", "{}", options_.look_timeout, [this, first](Result<HttpAnswer> answer) {
      executor_.post([first, taken = std::move(answer)]() mutable { first->take(std::move(taken)); });
    });
  }
  const auto waited = co_await first->done.wait(stop);
  if (!waited) co_return Error(Errc::kTimeout, "stopped");
  SPATE_CO_TRY(const std::string answer, std::move(first->answer));
  co_return members_answer(answer);
}

job::Task<Result<void>> EtcdCoordinator::check(std::string client_url, job::StopToken stop) {
  std::string url = client_url + "/v3/maintenance/status";
  std::string body = "{}";
  SPATE_CO_TRY(const HttpAnswer answer,
               co_await ask_at(std::move(url), std::move(body), options_.look_timeout, std::move(stop)));
  if (answer.status != kGood) co_return Error::told(Errc::kTryAgain, "etcd: " + error_text(answer.body));
  co_return status_answer(answer.body);
}

job::Task<Result<void>> EtcdCoordinator::add(std::string peer_url, job::StopToken stop) {
  std::string path = "/v3/cluster/member/add";
  std::string body = add_member_request(peer_url);
  SPATE_CO_TRY(std::ignore, co_await ask_all(std::move(path), std::move(body), stop));
  co_return Result<void>();
}

job::Task<Result<void>> EtcdCoordinator::promote(std::uint64_t id, job::StopToken stop) {
  std::string path = "/v3/cluster/member/promote";
  std::string body = member_request(id);
  SPATE_CO_TRY(std::ignore, co_await ask_all(std::move(path), std::move(body), stop));
  co_return Result<void>();
}

job::Task<Result<void>> EtcdCoordinator::remove(std::uint64_t id, job::StopToken stop) {
  std::string path = "/v3/cluster/member/remove";
  std::string body = member_request(id);
  SPATE_CO_TRY(std::ignore, co_await ask_all(std::move(path), std::move(body), stop));
  co_return Result<void>();
}

}  // namespace spate::coord
