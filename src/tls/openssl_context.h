// SPDX-License-Identifier: Apache-2.0
// The Context by OpenSSL.
#pragma once

#include "tls/stream.h"

namespace spate::tls {

std::unique_ptr<Context> make_context(const Settings& settings);

}  // namespace spate::tls
