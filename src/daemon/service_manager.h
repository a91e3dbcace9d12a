// SPDX-License-Identifier: Apache-2.0
// Tells a service manager (systemd, Type=notify) the state of this process, as sd_notify(3) does.
#pragma once

#include <string>

namespace spate::daemon {

/// Sends `state` ("READY=1", "STOPPING=1") to the datagram socket named by NOTIFY_SOCKET, a path or "@abstract".
/// Without that variable it does nothing. It never fails and never blocks, even if the manager does not listen.
void notify_service_manager(const std::string& state);

}  // namespace spate::daemon
