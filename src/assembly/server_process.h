// SPDX-License-Identifier: Apache-2.0
// ServerProcess: one spated: stores, services and network of one server of a spate.toml.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assembly/meta_group.h"
#include "assembly/network_counters.h"
#include "assembly/space_gauges.h"
#include "assembly/storage/registry.h"
#include "base/random.h"
#include "bmi/network.h"
#include "config/load.h"
#include "job/network.h"
#include "job/storage.h"
#include "log/line_file.h"
#include "metrics/metrics.h"
#include "rpc/server.h"
#include "server/io/io_service.h"
#include "server/meta/background/io_servers.h"
#include "server/meta/role.h"

namespace spate::assembly {

struct ServerSettings {
  std::string config_file;
  std::vector<config::Override> overrides;
  ServerId server;
  bool format = false;  // creates missing stores, empty; otherwise open() or run() refuses
};

/// Life cycle: open(), which opens the stores and answers no request yet -> run() until request_exit() -> destroyed.
/// One thread uses it; only request_exit(), trim_memory() and reopen_audit() may be called by another one, and
/// request_exit() by a signal handler.
class ServerProcess {
 public:
  /// The error names the cause: a port in use; a store that is missing, of another server or file system, or of a newer
  /// format; a folder without permission.
  static Result<std::unique_ptr<ServerProcess>> open(const ServerSettings& settings);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  /// Serves until request_exit(). Calls `serving` once, when it answers requests. When it returns, running requests
  /// have ended and everything committed is durable.
  Result<void> run(const std::function<void()>& serving = {});
  void request_exit() { executor_.request_exit(); }
  /// True: run() has ended because this member of the group of meta servers no longer leads, or cannot go on. The
  /// caller then opens the server again.
  bool is_to_restart() const { return restart_; }
  const config::ServerConfig& self() const { return self_; }
  const config::FileSystemConfig& config() const { return config_; }
  /// Any thread may read it until this is destroyed.
  const metrics::Registry& metrics() const { return metrics_; }
  /// Opens the audit log again, if there is one. Any thread.
  Result<void> reopen_audit() { return audit_ ? audit_->reopen() : Result<void>(); }
  /// The server is idle: it soon gives back memory that it holds only for speed. Any thread may call it, before and
  /// during run().
  void trim_memory();

 private:
  struct Target {
    TargetId id;
    std::unique_ptr<trove::Bytestreams> store;
    std::unique_ptr<job::StorageContext> context;
    std::uint64_t device = 0;
  };

  ServerProcess(config::LoadedConfig loaded, const ServerSettings& settings);
  Result<void> read_keys();
  Result<void> open_stores();
  Result<void> check_may_make(const TargetSettings& settings);
  Result<void> listen();
  Result<void> open_group();
  job::KeyvalContext& records() { return group_ != nullptr ? group_->records() : *records_; }
  Result<void> make_services();
  void make_meta_role();
  void make_io_role();
  job::Task<Result<void>> lead();
  void register_io();
  job::Task<Result<void>> start();
  job::Task<Result<void>> stop();

  const config::FileSystemConfig config_;
  const std::string config_text_;
  const config::ServerConfig& self_;
  const bool format_;
  bool restart_ = false;
  SystemClock clock_;
  SystemRandom random_;
  metrics::Registry metrics_;
  SpaceGauges space_gauges_{metrics_};
  rpc::Entrances entrances_;
  KeyRing client_keys_;
  KeyRing server_keys_;
  std::unique_ptr<log::LineFile> audit_;  // null: no audit log
  job::Executor executor_;
  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<NetworkCounters> network_counters_;
  std::unique_ptr<job::NetworkContext> context_;
  std::unique_ptr<trove::Keyval> keyval_;
  std::unique_ptr<job::KeyvalContext> records_;
  std::unique_ptr<MetaGroup> group_;  // null: this is the only meta server, or none
  std::vector<std::unique_ptr<Target>> targets_;
  std::unique_ptr<meta::IoServers> io_servers_;
  std::unique_ptr<meta::MetaRole> meta_;
  std::unique_ptr<io::IoService> io_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace spate::assembly
