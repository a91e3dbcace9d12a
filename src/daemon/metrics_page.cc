// SPDX-License-Identifier: Apache-2.0
// The only file that knows libmicrohttpd.
#include "daemon/metrics_page.h"

#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace spate::daemon {

/// The callbacks that the library calls for each request.
class MetricsAnswer {
 public:
  static MHD_Result on_request(void* page, MHD_Connection* connection, const char* path, const char* method,
                               const char*, const char*, std::size_t* size, void**) {
    *size = 0;  // a body is not looked at
    const std::string_view verb(method);
    if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
      return send(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    return answer(*static_cast<MetricsPage*>(page), connection, path);
  }

 private:
  static MHD_Result answer(const MetricsPage& page, MHD_Connection* connection, std::string_view path) {
    if (path == "/metrics") return send(connection, MHD_HTTP_OK, page.registry_.snapshot().prometheus());
    if (path != "/healthz") return send(connection, MHD_HTTP_NOT_FOUND, "there are /metrics and /healthz\n");
    const bool healthy = page.healthy_();
    return send(connection, healthy ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, healthy ? "ok\n" : "not serving\n");
  }
  static MHD_Result send(MHD_Connection* connection, unsigned status, const std::string& text) {
    MHD_Response* const response =
        MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    const MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
  }
};

namespace {

constexpr unsigned kConnections = 16;
constexpr unsigned kIdleSeconds = 10;
constexpr std::size_t kRequestRoom = 16U << 10U;

struct FreeAddress {
  void operator()(addrinfo* address) const { ::freeaddrinfo(address); }
};
using Address = std::unique_ptr<addrinfo, FreeAddress>;

Error no_address(const std::string& address) {
  return Error::told(
      Errc::kInvalidArgument,
      "\"" + address +
          "\" is no address for metrics: PORT, or a number of this machine and a port, as in 10.0.0.1:9464");
}

/// Numbers only: a name may be that of another machine.
Result<Address> parse(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoul(port) > 65535)
    return no_address(text);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (host.empty() || ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return no_address(text);
  return Address(found);
}

std::string host_of(const addrinfo& address) {
  std::array<char, NI_MAXHOST> host{};
  ::getnameinfo(address.ai_addr, address.ai_addrlen, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return address.ai_family == AF_INET6 ? "[" + std::string(host.data()) + "]" : std::string(host.data());
}

}  // namespace

MetricsPage::MetricsPage(const metrics::Registry& registry, std::function<bool()> healthy)
    : registry_(registry), healthy_(std::move(healthy)) {}

MetricsPage::~MetricsPage() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

Result<std::unique_ptr<MetricsPage>> MetricsPage::start(const std::string& address, const metrics::Registry& registry,
                                                        std::function<bool()> healthy) {
  SPATE_TRY(const auto where, parse(address));
  std::unique_ptr<MetricsPage> page(new MetricsPage(registry, std::move(healthy)));
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD;
  if (where->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
  errno = 0;
  page->daemon_ = MHD_start_daemon(flags, 0, nullptr, nullptr, &MetricsAnswer::on_request, page.get(),
                                   MHD_OPTION_SOCK_ADDR, where->ai_addr, MHD_OPTION_CONNECTION_LIMIT, kConnections,
                                   MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                   kRequestRoom, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1U, MHD_OPTION_END);
  if (page->daemon_ == nullptr) return errno_error(errno, "metrics cannot be served at " + address);
  const MHD_DaemonInfo* const port = MHD_get_daemon_info(page->daemon_, MHD_DAEMON_INFO_BIND_PORT);
  page->url_ = "http://" + host_of(*where) + ":" + std::to_string(port == nullptr ? 0 : port->port);
  return page;
}

}  // namespace spate::daemon
