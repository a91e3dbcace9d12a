// SPDX-License-Identifier: Apache-2.0
#include "assembly/coordinator/registry.h"

#ifdef SPATE_COORD_ETCD
#include "coord/etcd/etcd_coordinator.h"
#endif

namespace spate::assembly {

#ifdef SPATE_COORD_ETCD
Result<std::unique_ptr<coord::Coordinator>> make_coordinator(std::vector<std::string> urls, std::string prefix,
                                                             job::Executor& executor) {
  SPATE_TRY(std::ignore, coord::HttpClient::check());
  coord::EtcdOptions options;
  options.urls = std::move(urls);
  options.prefix = std::move(prefix);
  return std::unique_ptr<coord::Coordinator>(std::make_unique<coord::EtcdCoordinator>(std::move(options), executor));
}
#else
Result<std::unique_ptr<coord::Coordinator>> make_coordinator(std::vector<std::string> /*urls*/, std::string /*prefix*/,
                                                             job::Executor& /*executor*/) {
  return Error::told(Errc::kNotSupported,
                     "this build of spated cannot ask etcd (meta.coordinator): it was built without libcurl");
}
#endif

}  // namespace spate::assembly
