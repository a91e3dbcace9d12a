// SPDX-License-Identifier: Apache-2.0
// What wire.cc and wire_io.cc share: libfabric's objects and the contexts of its operations.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "bmi/ofi/wire.h"

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

/// In the order of their opening; closed in reverse.
struct Wire::Fabric {
  Info info;
  Fid<fid_fabric> fabric;
  Fid<fid_domain> domain;
  std::vector<Fid<fid_mr>> slab_keys;
  Fid<fid_av> addresses;
  Fid<fid_cq> queue;
  Fid<fid_ep> endpoint;
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

struct Wire::ReadSlot : Context {
  void* who = nullptr;
  Route* route = nullptr;
  std::list<ReadSlot>::iterator self;
};

/// The endpoints of the shm provider in this process. In 1.17 two endpoints share one mapping, which disappears with
/// its owner; touching it afterwards ends the process. A sender therefore holds the lock and checks first. The object
/// is process-wide, like the defect.
class ShmNames {
 public:
  static ShmNames& of_this_process();
  std::mutex mutex;
  std::set<Bytes> names;  // guarded by mutex
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
