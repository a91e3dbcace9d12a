// SPDX-License-Identifier: Apache-2.0
// HttpClient: sends HTTP requests on a thread of its own.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_function.h"

namespace spate::coord {

/// Files in PEM, by which client and server show each other that one authority has certified them. The certificate need
/// not name the server's host, since only members have one of that authority. All empty: only http://.
struct HttpTls {
  std::string authority;
  std::string certificate;
  std::string key;
};

struct HttpAnswer {
  long status = 0;  // HTTP's
  std::string body;
};

/// Life cycle: check() succeeds -> construct -> posts -> destroyed. Any thread may post. The destructor ends the
/// requests under way and drops their actions.
class HttpClient {
 public:
  /// kNotSupported: there is no libcurl on this machine.
  static Result<void> check();
  explicit HttpClient(HttpTls tls);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Called on the client's thread. kUnreachable: nothing was sent. kTimeout, kConnectionLost: it may have arrived.
  using Action = UniqueFunction<void(Result<HttpAnswer>)>;
  /// Posts `body` as JSON to `url`; never blocks. `timeout`: of the whole request, at least 1 ms. `action` is called
  /// once, unless the client is destroyed before: with the answer, whatever its status is, or with an error; an answer
  /// of more than 8 MiB counts as a lost connection. `action` must not block, since all requests share the thread, nor
  /// destroy the client.
  void post(std::string url, std::string body, Duration timeout, Action action);

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace spate::coord
