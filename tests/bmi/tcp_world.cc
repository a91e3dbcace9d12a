// SPDX-License-Identifier: Apache-2.0
#include "tests/bmi/tcp_world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "base/check.h"
#include "tls/certificates_fixture.h"
#include "tls/openssl_context.h"

namespace spate::bmi::conformance {

TcpWorld::TcpWorld(Wrap wrap, tcp::TcpOptions options, bool secure)
    : wrap_(std::move(wrap)),
      options_(std::move(options)),
      secure_(secure),
      dead_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  SPATE_CHECK(::bind(dead_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  SPATE_CHECK(::getsockname(dead_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  dead_url_ = scheme() + "://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

Traits TcpWorld::traits() const {
  Traits traits;
  // The bytes that the kernel may hold on both sides of a loopback connection (net.ipv4.tcp_wmem and tcp_rmem with
  // their default values).
  traits.transit_bytes = 12 * 1024 * 1024;
  return traits;
}

World::Place TcpWorld::start(const NetworkOptions& options) {
  return {restart({}, options), scheme() + "://127.0.0.1:0"};
}

std::unique_ptr<Network> TcpWorld::restart(const std::string& /*url*/, const NetworkOptions& options) {
  std::vector<std::unique_ptr<Module>> modules;
  tcp::TcpOptions its = options_;
  if (secure_) its.tls = tls::make_context({.files = {}, .keys = std::make_shared<tls::OneKey>()});
  modules.push_back(tcp::make_tcp_module(clock_, its));
  if (wrap_) modules.back() = wrap_(std::move(modules.back()));
  return make_network(std::move(modules), options);
}

}  // namespace spate::bmi::conformance
