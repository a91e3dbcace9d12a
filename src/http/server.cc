// SPDX-License-Identifier: Apache-2.0
// The only file that knows libmicrohttpd.
#include "http/server.h"

#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

namespace spate::http {
namespace {

class ConnectionRequest final : public Request {
 public:
  ConnectionRequest(MHD_Connection* connection, std::string_view path) : connection_(connection), path_(path) {}
  std::string_view path() const override { return path_; }
  std::optional<std::string_view> header(const char* name) const override { return value(MHD_HEADER_KIND, name); }
  std::optional<std::string_view> argument(const char* name) const override {
    return value(MHD_GET_ARGUMENT_KIND, name);
  }

 private:
  std::optional<std::string_view> value(MHD_ValueKind kind, const char* name) const {
    const char* text = nullptr;
    std::size_t size = 0;
    const std::string_view key(name);
    if (MHD_lookup_connection_value_n(connection_, kind, name, key.size(), &text, &size) != MHD_YES)
      return std::nullopt;
    return text == nullptr ? std::string_view() : std::string_view(text, size);
  }

  MHD_Connection* const connection_;
  const std::string_view path_;
};

constexpr unsigned kConnections = 16;

}  // namespace

/// The connections that the library has open. Called by its threads.
class Connections {
 public:
  static void on_change(void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode what) {
    auto& connections = *static_cast<Connections*>(self);
    const std::lock_guard lock(connections.mutex_);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
      connections.add(connection);
    } else {  // its descriptor is closed after this
      std::erase_if(connections.open_, [connection](const One& one) { return one.connection == connection; });
    }
  }
  /// The connection has sent a whole request.
  void asks(MHD_Connection* connection) {
    const std::lock_guard lock(mutex_);
    for (One& one : open_) one.asked = one.asked || one.connection == connection;
  }

 private:
  struct One {
    MHD_Connection* connection;
    int fd;
    bool asked;
  };

  void add(MHD_Connection* connection) {
    if (open_.size() >= kConnections) {
      auto last = std::ranges::find(open_, false, &One::asked);
      if (last == open_.end()) last = open_.begin();
      ::shutdown(last->fd, SHUT_RDWR);  // the library sees its end, and closes it
      open_.erase(last);
    }
    const MHD_ConnectionInfo* const info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != nullptr) open_.push_back({connection, info->connect_fd, false});
  }

  std::mutex mutex_;
  std::vector<One> open_;  // the oldest first
};

/// The callback that the library calls for each request.
class Answer {
 public:
  static MHD_Result on_request(void* server, MHD_Connection* connection, const char* path, const char* method,
                               const char*, const char*, std::size_t* size, void**) {
    *size = 0;  // bodies are ignored
    static_cast<Server*>(server)->connections_->asks(connection);
    const std::string_view verb(method);
    if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD) {
      Response refusal;
      refusal.status = MHD_HTTP_METHOD_NOT_ALLOWED;
      refusal.body = "only GET and HEAD\n";
      return send(connection, refusal);
    }
    const ConnectionRequest request(connection, path);
    return send(connection, static_cast<Server*>(server)->handler_(request));
  }

 private:
  static MHD_Result send(MHD_Connection* connection, const Response& answer) {
    MHD_Response* const response = MHD_create_response_from_buffer(
        answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.type.c_str());
    for (const auto& [name, value] : answer.headers) MHD_add_response_header(response, name.c_str(), value.c_str());
    const MHD_Result queued = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return queued;
  }
};

namespace {

constexpr unsigned kIdleSeconds = 10;
constexpr unsigned kLimit = 4 * kConnections;  // of libmicrohttpd: for all threads, and with those that it is closing
constexpr std::size_t kRequestRoom = 16U << 10U;

struct FreeAddress {
  void operator()(addrinfo* address) const { ::freeaddrinfo(address); }
};
using Address = std::unique_ptr<addrinfo, FreeAddress>;

Error no_address(const Options& options) {
  return Error::told(Errc::kInvalidArgument, "\"" + options.address + "\" is no address for " + options.what +
                                                 ": PORT, or a number of this machine and a port, as in 10.0.0.1:9464");
}

/// Accepts numeric addresses only, since a name may be that of another machine.
Result<Address> parse(const Options& options) {
  const std::string& text = options.address;
  const std::size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoul(port) > 65535)
    return no_address(options);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return no_address(options);
  return Address(found);
}

std::string host_of(const addrinfo& address) {
  std::array<char, NI_MAXHOST> host{};
  ::getnameinfo(address.ai_addr, address.ai_addrlen, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return address.ai_family == AF_INET6 ? "[" + std::string(host.data()) + "]" : std::string(host.data());
}

/// Does not use MHD_OPTION_LISTENING_ADDRESS_REUSE, which would let a second program listen at a port that is in use:
/// the kernel would give each of them some of the connections. The library takes a pool only if it has more than one
/// thread.
MHD_Daemon* start_daemon(const addrinfo& where, unsigned threads, MHD_AccessHandlerCallback handler, Server* server,
                         Connections* connections) {
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD;
  if (where.ai_family == AF_INET6) flags |= MHD_USE_IPv6;
  const std::array<MHD_OptionItem, 2> pool = {MHD_OptionItem{threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
                                                             static_cast<intptr_t>(threads), nullptr},
                                              MHD_OptionItem{MHD_OPTION_END, 0, nullptr}};
  return MHD_start_daemon(flags, 0, nullptr, nullptr, handler, server, MHD_OPTION_SOCK_ADDR, where.ai_addr,
                          MHD_OPTION_CONNECTION_LIMIT, kLimit, MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,
                          MHD_OPTION_CONNECTION_MEMORY_LIMIT, kRequestRoom, MHD_OPTION_NOTIFY_CONNECTION,
                          &Connections::on_change, connections, MHD_OPTION_ARRAY, pool.data(), MHD_OPTION_END);
}

}  // namespace

Server::Server(Handler handler) : handler_(std::move(handler)), connections_(std::make_unique<Connections>()) {}

Server::~Server() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

Result<std::unique_ptr<Server>> Server::start(const Options& options, Handler handler) {
  SPATE_TRY(const auto where, parse(options));
  std::unique_ptr<Server> server(new Server(std::move(handler)));
  errno = 0;
  server->daemon_ =
      start_daemon(*where, options.threads, &Answer::on_request, server.get(), server->connections_.get());
  if (server->daemon_ == nullptr) return errno_error(errno, options.what + " cannot be served at " + options.address);
  const MHD_DaemonInfo* const port = MHD_get_daemon_info(server->daemon_, MHD_DAEMON_INFO_BIND_PORT);
  server->url_ = "http://" + host_of(*where) + ":" + std::to_string(port == nullptr ? 0 : port->port);
  return server;
}

}  // namespace spate::http
