// SPDX-License-Identifier: Apache-2.0
// Server: answers GET and HEAD at one address of this machine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

struct MHD_Daemon;

namespace spate::http {

/// A request of a browser or a scraper. It lives only as long as the handler runs.
class Request {
 public:
  virtual ~Request() = default;
  /// The path without the arguments: "/metrics".
  virtual std::string_view path() const = 0;
  /// The value of a header; the case of its name does not matter. If there are several, the first one's.
  virtual std::optional<std::string_view> header(const char* name) const = 0;
  /// The decoded value of "?name=value".
  virtual std::optional<std::string_view> argument(const char* name) const = 0;
};

struct Response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

struct Options {
  /// "PORT" of 127.0.0.1, or "HOST:PORT" ("[::]:9464") with a numeric address of this machine; port 0: a free one.
  std::string address;
  std::string what;      // what is served there, for errors
  unsigned threads = 1;  // threads that call the handler, 1 or more
};

class Connections;

/// Serves from start() until it is destroyed, on threads of its own, so a slow reader never holds up the caller. Keeps
/// at most 16 connections, closes one that moves nothing for 10 s, reads at most 16 KiB of a request, and ignores
/// bodies. One more connection closes the oldest one that has sent no request yet, or else the oldest one. So nobody
/// keeps others out with requests that never end.
class Server {
 public:
  /// Called by the server's threads, by several at once if there are several.
  using Handler = std::function<Response(const Request&)>;

  /// kInvalidArgument: no such address. kNotSupported: this build has no HTTP library.
  static Result<std::unique_ptr<Server>> start(const Options& options, Handler handler);
  /// Waits for the handlers that run.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// "http://127.0.0.1:9464"
  const std::string& url() const { return url_; }

 private:
  friend class Answer;
  explicit Server(Handler handler);

  const Handler handler_;
  const std::unique_ptr<Connections> connections_;
  MHD_Daemon* daemon_ = nullptr;
  std::string url_;
};

}  // namespace spate::http
