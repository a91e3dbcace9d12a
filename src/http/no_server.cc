// SPDX-License-Identifier: Apache-2.0
// Replaces server.cc in builds without libmicrohttpd.
#include "http/server.h"

namespace spate::http {

class Connections {};

Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(const Options& options, Handler) {
  return Error::told(Errc::kNotSupported, options.what + " cannot be served: this build has no libmicrohttpd");
}

}  // namespace spate::http
