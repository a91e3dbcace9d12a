// SPDX-License-Identifier: Apache-2.0
#include "tests/bmi/ofi_world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "base/check.h"
#include "bmi/ofi/ofi_module.h"

namespace spate::bmi::conformance {

OfiWorld::OfiWorld(std::string suffix, Wrap wrap, std::string node)
    : suffix_(std::move(suffix)), node_(std::move(node)), wrap_(std::move(wrap)) {
  if (suffix_ == "shm") {
    dead_url_ = "ofi+shm://nobody-listens-here";
    return;
  }
  dead_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  SPATE_CHECK(::inet_pton(AF_INET, node_.c_str(), &address.sin_addr) == 1);
  socklen_t size = sizeof address;
  SPATE_CHECK(::bind(dead_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  SPATE_CHECK(::getsockname(dead_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  dead_url_ = scheme() + "://" + node_ + ":" + std::to_string(ntohs(address.sin_port));
}

Traits OfiWorld::traits() const {
  Traits traits;
  // The bytes in one direction that the provider and the kernel may hold (32 packets at a time, docs/wire-ofi.md).
  traits.transit_bytes = 1024 * 1024;
  return traits;
}

World::Place OfiWorld::start(const NetworkOptions& options) {
  return {restart({}, options), scheme() + (suffix_ == "shm" ? "://*" : "://" + node_ + ":0")};
}

std::unique_ptr<Network> OfiWorld::restart(const std::string& /*url*/, const NetworkOptions& options) {
  std::vector<std::unique_ptr<Module>> modules;
  modules.push_back(ofi::make_ofi_module(clock_));
  if (wrap_) modules.back() = wrap_(std::move(modules.back()));
  return make_network(std::move(modules), options);
}

}  // namespace spate::bmi::conformance
