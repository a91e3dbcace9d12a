// SPDX-License-Identifier: Apache-2.0
#include "assembly/storage/registry.h"

#include <unistd.h>

#include "log/fields.h"
#include "log/log.h"
#include "trove/kvmem/memory_keyval.h"
#include "trove/mem/mem_store.h"
#include "trove/pool/pool_bytestreams.h"
#include "trove/rocksdb/rocksdb_keyval.h"
#include "trove/target_folder.h"
#include "trove/uring/uring_bytestreams.h"

namespace spate::assembly {
namespace {

/// If a folder that should have a store is empty, data is missing. Never replace it by an empty store.
Error no_store(const std::string& folder, std::string_view what) {
  return Error::told(Errc::kNotFound,
                     folder + " holds no " + std::string(what) +
                         ". Is its disk mounted, and its path right? If it is new, or its old contents are given up, "
                         "start spated once with --format, which makes an empty one");
}

/// Adds the folder and the setting, which the system's error does not name.
Error in_folder(Error error, const std::string& folder) {
  if (error.code() == Errc::kPermissionDenied || error.code() == Errc::kNotPermitted) {
    return std::move(error).within("storage folder " + folder + " must belong to the server's user (uid " +
                                   std::to_string(::geteuid()) +
                                   ") with all that is in it: chown -R it, or start the server as its owner");
  }
  if (error.context().find(folder) != std::string::npos) return error;
  return std::move(error).within("storage folder " + folder);
}

Result<std::shared_ptr<trove::LocalTarget>> open_local(const TargetSettings& settings) {
  const trove::TargetIdentity identity{settings.fs, settings.target};
  auto target = trove::LocalTarget::open(settings.folder, identity);
  if (target) return target;
  if (target.code() != Errc::kNotFound) return in_folder(std::move(target).error(), settings.folder);
  if (!settings.make) return no_store(settings.folder, "file data of Spate");
  const auto made = trove::create_target(settings.folder, identity);
  if (!made) return in_folder(made.error(), settings.folder);
  SPATE_LOG("server", info, "target formatted folder={} target={}", log::Quoted{settings.folder}, settings.target);
  return trove::LocalTarget::open(settings.folder, identity);
}

}  // namespace

Result<std::unique_ptr<trove::Bytestreams>> open_target(const TargetSettings& settings) {
  if (settings.kind == config::TroveKind::kMemory) {
    return std::unique_ptr<trove::Bytestreams>(
        std::make_unique<trove::MemBytestreams>(std::make_shared<trove::MemStore>(settings.memory_bytes)));
  }
  SPATE_TRY(auto local, open_local(settings));
  if (settings.kind != config::TroveKind::kPool) {
    auto uring = trove::UringBytestreams::make(local);
    if (uring) return std::unique_ptr<trove::Bytestreams>(*std::move(uring));
    if (settings.kind == config::TroveKind::kUring) {
      return std::move(uring).error().within("trove = \"uring\" is not available here; use \"auto\" or \"pool\"");
    }
    SPATE_LOG("server", info, "io_uring is refused here, using threads reason={}", uring.error());
  }
  return std::unique_ptr<trove::Bytestreams>(std::make_unique<trove::PoolBytestreams>(local));
}

Result<std::unique_ptr<trove::Keyval>> open_keyval(config::TroveKind kind, const std::string& folder, bool make) {
  if (kind == config::TroveKind::kMemory) return trove::make_memory_keyval();
  if (!make && ::access((folder + "/CURRENT").c_str(), F_OK) != 0) return no_store(folder, "keyval store");
  trove::RocksdbOptions options;
  options.folder = folder;
  return trove::open_rocksdb(options);
}

}  // namespace spate::assembly
