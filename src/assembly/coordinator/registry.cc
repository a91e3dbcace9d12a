// SPDX-License-Identifier: Apache-2.0
#include "assembly/coordinator/registry.h"

#include <unistd.h>

#include <cerrno>

#ifdef SPATE_COORD_ETCD
#include "coord/etcd/etcd_coordinator.h"
#endif

namespace spate::assembly {

#ifdef SPATE_COORD_ETCD
namespace {

/// What the keys of a file system begin with.
std::string prefix_of(FsId fs) {
  const std::uint64_t id = fs.value;
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[id >> shift & 0xF];
  return "/spate/" + text + "/";
}

}  // namespace

Result<std::unique_ptr<coord::Coordinator>> make_coordinator(const config::FileSystemConfig& config,
                                                             job::Executor& executor) {
  SPATE_TRY(std::ignore, coord::HttpClient::check());
  coord::EtcdOptions options;
  options.urls = config.meta.coordinator;
  options.prefix = prefix_of(config.fs.id);
  const std::string& folder = config.meta.coordinator_tls;
  if (!folder.empty()) {
    options.tls = {folder + "/ca.pem", folder + "/cert.pem", folder + "/key.pem"};
    for (const std::string& file : {options.tls.authority, options.tls.certificate, options.tls.key}) {
      if (::access(file.c_str(), R_OK) != 0) return errno_error(errno, "meta.coordinator_tls: read " + file);
    }
  }
  return std::unique_ptr<coord::Coordinator>(std::make_unique<coord::EtcdCoordinator>(std::move(options), executor));
}
#else
Result<std::unique_ptr<coord::Coordinator>> make_coordinator(const config::FileSystemConfig& /*config*/,
                                                             job::Executor& /*executor*/) {
  return Error::told(Errc::kNotSupported,
                     "this build of spated cannot ask etcd (meta.coordinator): it was built without libcurl");
}
#endif

}  // namespace spate::assembly
