// SPDX-License-Identifier: Apache-2.0
// Host headers of requests that are meant for this machine.
#pragma once

#include <string_view>

namespace spate::http {

/// Whether a Host header names the loopback address: localhost, 127.0.0.1 or [::1], with any port. A site whose name
/// resolves to 127.0.0.1 (DNS rebinding) is told apart by its name. Any port: a tunnel of ssh has another one.
bool names_loopback(std::string_view host);

}  // namespace spate::http
