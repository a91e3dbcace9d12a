// SPDX-License-Identifier: Apache-2.0
// Tells a service manager (systemd, Type=notify) how far this process is: sd_notify(3) by its plain socket protocol.
#pragma once

#include <string>

namespace spate::daemon {

/// Sends `state` ("READY=1", "STOPPING=1") to the datagram socket named by NOTIFY_SOCKET, a path or "@abstract".
/// Without that variable: nothing. A manager that does not listen is none of our business: never fails, never blocks.
void notify_service_manager(const std::string& state);

}  // namespace spate::daemon
