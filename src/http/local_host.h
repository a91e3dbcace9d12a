// SPDX-License-Identifier: Apache-2.0
// Host headers of requests that are meant for this machine.
#pragma once

#include <string_view>

namespace spate::http {

/// Whether a Host header names the loopback address: localhost, 127.0.0.1 or [::1]. A site whose name resolves to
/// 127.0.0.1 (DNS rebinding) has another name there. The port may be any one, since a tunnel of ssh has its own.
bool names_loopback(std::string_view host);

}  // namespace spate::http
