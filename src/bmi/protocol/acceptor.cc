// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/acceptor.h"

#include <fcntl.h>
#include <sys/socket.h>

namespace spate::bmi::protocol {

bool Acceptor::open() {
  reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return static_cast<bool>(reserve_);
}

UniqueFd Acceptor::take(int listener) {
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

/// The reserved descriptor lets the module take the connection and close it. Otherwise the listener would stay readable
/// and wake the thread for ever.
void Acceptor::refuse(int listener) {
  reserve_.reset();
  UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)).reset();
  (void)open();
}

}  // namespace spate::bmi::protocol
