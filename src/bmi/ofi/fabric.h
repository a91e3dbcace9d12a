// SPDX-License-Identifier: Apache-2.0
// libfabric's objects, owned, the contexts of its operations, and the way from one endpoint to another one.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace spate::bmi::ofi {

/// Closes a libfabric object.
template <typename T>
struct FidCloser {
  void operator()(T* object) const { (void)fi_close(&object->fid); }
};
template <typename T>
using Fid = std::unique_ptr<T, FidCloser<T>>;

struct InfoFreer {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoFreer>;

/// The version of libfabric's interface that this code uses.
inline constexpr std::uint32_t kApi = FI_VERSION(1, 15);

struct PacketBuffer;

/// The way from this endpoint to another one. The wire owns it and frees it some time after close_route().
struct Route {
  std::uint64_t fabric_address = 0;
  void* owner = nullptr;            // null: closed
  Bytes name;                       // as the provider gives it
  std::uint32_t in_flight = 0;      // packets
  std::uint32_t reads = 0;          // in flight
  PacketBuffer* refused = nullptr;  // a filled packet that the provider could not take yet; it is sent first
  bool same_process = false;
  bool failed = false;  // the provider cannot send to it, so the peer is lost
  // The provider's connection has failed, and the provider makes no other one while the endpoint is open.
  bool broken = false;
};

/// The context of a completion. libfabric may use the first member while the operation is in flight.
struct Context {
  enum class Kind : std::uint8_t { kReceive, kSend, kRead };
  fi_context2 fabric{};
  Kind kind = Kind::kReceive;
};

struct PacketBuffer : Context {
  std::byte* data = nullptr;
  void* descriptor = nullptr;
  Route* route = nullptr;  // sends
  std::size_t size = 0;
};

struct ReadSlot : Context {
  void* who = nullptr;
  Route* route = nullptr;
  std::list<ReadSlot>::iterator self;
};

inline Error fabric_error(long failed, std::string what) {
  const int number = static_cast<int>(failed < 0 ? -failed : failed);
  Errc code = Errc::kIoError;
  if (number == FI_ENODATA || number == FI_ENOSYS || number == FI_EOPNOTSUPP) code = Errc::kNotSupported;
  if (number == FI_ENOMEM) code = Errc::kNoMemory;
  if (number == FI_EADDRINUSE || number == FI_EBUSY) code = Errc::kExists;
  if (number == FI_EADDRNOTAVAIL) code = Errc::kBadAddress;
  return Error(code, std::move(what) + ": " + fi_strerror(number));
}

}  // namespace spate::bmi::ofi
