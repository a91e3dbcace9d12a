// SPDX-License-Identifier: Apache-2.0
#include "coord/etcd/http.h"

#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "coord/etcd/libcurl.h"

namespace spate::coord {
namespace {

/// Limit of an answer, which normally has a few records.
constexpr std::size_t kMostBytes = std::size_t{8} << 20U;

struct Exchange {
  explicit Exchange(const Libcurl& curl_in) : curl(curl_in) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  const Libcurl& curl;
  std::string url;
  std::string body;
  long timeout_ms = 0;
  HttpClient::Action action;
  HttpAnswer answer;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  ~Exchange() {
    curl.slist_free_all(headers);
    curl.easy_cleanup(easy);
  }
};

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* to) {
  auto& exchange = *static_cast<Exchange*>(to);
  if (exchange.answer.body.size() + size * count > kMostBytes) return 0;
  exchange.answer.body.append(data, size * count);
  return size * count;
}

Errc errc_of(CURLcode code) {
  switch (code) {
    case CURLE_OK: return Errc::kOk;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return Errc::kUnreachable;
    case CURLE_OPERATION_TIMEDOUT: return Errc::kTimeout;
    default: return Errc::kConnectionLost;
  }
}

CURLM* made_multi(const Libcurl& curl) {
  CURLM* const multi = curl.multi_init();
  SPATE_CHECK(multi != nullptr);
  return multi;
}

}  // namespace

class HttpClient::Worker {
 public:
  Worker(const Libcurl& curl, HttpTls tls)
      : curl_(curl), tls_(std::move(tls)), multi_(made_multi(curl)), thread_([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    curl_.multi_wakeup(multi_);
    thread_.join();
    for (const auto& [easy, exchange] : under_way_) curl_.multi_remove_handle(multi_, easy);
    under_way_.clear();
    curl_.multi_cleanup(multi_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::unique_ptr<Exchange> exchange) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(exchange));
    }
    curl_.multi_wakeup(multi_);
  }

 private:
  void run() {
    while (begin_posted()) {
      int running = 0;
      curl_.multi_perform(multi_, &running);
      finish_ended();
      curl_.multi_poll(multi_, nullptr, 0, 1000, nullptr);
    }
  }
  /// Starts posted requests. False: the client ends.
  bool begin_posted() {
    std::vector<std::unique_ptr<Exchange>> fresh;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return false;
      fresh.swap(posted_);
    }
    for (auto& exchange : fresh) begin(std::move(exchange));
    return true;
  }
  void begin(std::unique_ptr<Exchange> exchange) {
    CURL* const easy = curl_.easy_init();
    SPATE_CHECK(easy != nullptr);
    exchange->easy = easy;
    exchange->headers = curl_.slist_append(nullptr, "Content-Type: application/json");
    curl_.easy_setopt(easy, CURLOPT_URL, exchange->url.c_str());
    curl_.easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->headers);
    curl_.easy_setopt(easy, CURLOPT_POSTFIELDS, exchange->body.c_str());
    curl_.easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(exchange->body.size()));
    curl_.easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take_body);
    curl_.easy_setopt(easy, CURLOPT_WRITEDATA, exchange.get());
    curl_.easy_setopt(easy, CURLOPT_TIMEOUT_MS, exchange->timeout_ms);
    curl_.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);  // the process has other threads
    curl_.easy_setopt(easy, CURLOPT_PROXY, "");     // no proxy, whatever the environment says: the members are near
    protect(easy);
    if (curl_.multi_add_handle(multi_, easy) != CURLM_OK) {  // there is no memory: nothing would ever end it
      return exchange->action(Error(Errc::kUnreachable, exchange->url));
    }
    under_way_.emplace(easy, std::move(exchange));
  }
  void protect(CURL* easy) {
    const bool tls = !tls_.authority.empty();
    curl_.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, tls ? "https" : "http");
    if (!tls) return;
    curl_.easy_setopt(easy, CURLOPT_CAINFO, tls_.authority.c_str());
    curl_.easy_setopt(easy, CURLOPT_SSLCERT, tls_.certificate.c_str());
    curl_.easy_setopt(easy, CURLOPT_SSLKEY, tls_.key.c_str());
    curl_.easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_.easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);  // HttpTls says why
  }
  void finish_ended() {
    int left = 0;
    while (const CURLMsg* const message = curl_.multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const auto found = under_way_.find(message->easy_handle);
      const CURLcode code = message->data.result;
      const std::unique_ptr<Exchange> exchange = std::move(found->second);
      under_way_.erase(found);
      curl_.easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &exchange->answer.status);
      curl_.multi_remove_handle(multi_, exchange->easy);
      const Errc status = errc_of(code);
      if (status == Errc::kOk) {
        exchange->action(std::move(exchange->answer));
      } else {
        exchange->action(Error(status, exchange->url + ": " + curl_.easy_strerror(code)));
      }
    }
  }

  const Libcurl& curl_;
  const HttpTls tls_;
  CURLM* const multi_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Exchange>> posted_;         // guarded by mutex_
  bool stopping_ = false;                                 // guarded by mutex_
  std::map<CURL*, std::unique_ptr<Exchange>> under_way_;  // the thread's
  std::thread thread_;                                    // last: it uses everything above
};

Result<void> HttpClient::check() { return libcurl() ? Result<void>() : libcurl().error(); }

HttpClient::HttpClient(HttpTls tls) {
  SPATE_CHECK(libcurl().has_value());
  // Once in a process; libcurl counts the calls. (Not thread-safe before 7.84; Debian 12 has 7.88.)
  SPATE_CHECK(libcurl()->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
  worker_ = std::make_unique<Worker>(*libcurl(), std::move(tls));
}

HttpClient::~HttpClient() {
  worker_.reset();
  libcurl()->global_cleanup();
}

void HttpClient::post(std::string url, std::string body, Duration timeout, Action action) {
  auto exchange = std::make_unique<Exchange>(*libcurl());
  exchange->url = std::move(url);
  exchange->body = std::move(body);
  exchange->timeout_ms = std::max<long>(1, static_cast<long>(timeout.count() / 1'000'000));
  exchange->action = std::move(action);
  worker_->post(std::move(exchange));
}

}  // namespace spate::coord
