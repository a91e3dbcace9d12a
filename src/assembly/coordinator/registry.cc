// SPDX-License-Identifier: Apache-2.0
#include "assembly/coordinator/registry.h"

#ifdef SPATE_COORD_ETCD
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/secret_file.h"
#include "coord/etcd/etcd_coordinator.h"
#endif

namespace spate::assembly {

#ifdef SPATE_COORD_ETCD
namespace {

/// A change of the members takes longer than one of a record: it is synced, and waits for the members.
constexpr Duration kMemberTimeout = std::chrono::seconds(5);

/// The prefix of all keys of a file system.
std::string prefix_of(FsId fs) {
  const std::uint64_t id = fs.value;
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[id >> shift & 0xF];
  return "/spate/" + text + "/";
}

/// The holder of the private key can write in etcd which meta server leads.
Result<coord::HttpTls> tls_files_in(const std::string& folder) {
  coord::HttpTls files{folder + "/ca.pem", folder + "/cert.pem", folder + "/key.pem"};
  for (const std::string& file : {files.authority, files.certificate, files.key}) {
    if (::access(file.c_str(), R_OK) != 0) return errno_error(errno, "meta.coordinator_tls: read " + file);
  }
  auto kept = check_secret_file(files.key, kBeyondGroupReading);
  if (!kept) return std::move(kept).error().within("meta.coordinator_tls");
  return files;
}

Result<coord::EtcdOptions> etcd_options(const config::FileSystemConfig& config) {
  SPATE_TRY(std::ignore, coord::HttpClient::check());
  coord::EtcdOptions options;
  options.urls = config.meta.coordinator;
  options.prefix = prefix_of(config.fs.id);
  if (!config.meta.coordinator_tls.empty()) {
    SPATE_TRY(options.tls, tls_files_in(config.meta.coordinator_tls));
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<coord::Coordinator>> make_coordinator(const config::FileSystemConfig& config,
                                                             job::Executor& executor) {
  SPATE_TRY(auto options, etcd_options(config));
  return std::unique_ptr<coord::Coordinator>(std::make_unique<coord::EtcdCoordinator>(std::move(options), executor));
}

Result<std::unique_ptr<coord::Voters>> make_voters(const config::FileSystemConfig& config, job::Executor& executor) {
  SPATE_TRY(auto options, etcd_options(config));
  options.timeout = kMemberTimeout;
  return std::unique_ptr<coord::Voters>(std::make_unique<coord::EtcdCoordinator>(std::move(options), executor));
}
#else
namespace {

Error no_libcurl() {
  return Error::told(Errc::kNotSupported,
                     "this build of spated cannot ask etcd (meta.coordinator): it was built without libcurl");
}

}  // namespace

Result<std::unique_ptr<coord::Coordinator>> make_coordinator(const config::FileSystemConfig& /*config*/,
                                                             job::Executor& /*executor*/) {
  return no_libcurl();
}

Result<std::unique_ptr<coord::Voters>> make_voters(const config::FileSystemConfig& /*config*/,
                                                   job::Executor& /*executor*/) {
  return no_libcurl();
}
#endif

}  // namespace spate::assembly
