// SPDX-License-Identifier: Apache-2.0
// Finds the process that listens on a TCP port of this machine, so that messages can name it.
#pragma once

#include <cstdint>
#include <string>

namespace spate::tools {

/// "nginx (pid 812)" for the process that listens on the port in this network namespace, "a program of another user" if
/// its descriptors cannot be read, or empty if nobody listens. From /proc; O(processes).
std::string port_holder(std::uint16_t port);

}  // namespace spate::tools
