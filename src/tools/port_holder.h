// SPDX-License-Identifier: Apache-2.0
// The process that listens on a TCP port of this machine, for messages.
#pragma once

#include <cstdint>
#include <string>

namespace spate::tools {

/// "nginx (pid 812)" for the process that listens on the port in this network namespace, "a program of another user" if
/// its descriptors cannot be read, or empty if nobody listens. From /proc; O(processes).
std::string port_holder(std::uint16_t port);

}  // namespace spate::tools
