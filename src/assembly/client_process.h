// SPDX-License-Identifier: Apache-2.0
// ClientProcess: everything a program needs to use a file system, built from its spate.toml.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/random.h"
#include "client/blocking.h"
#include "client/client.h"
#include "config/load.h"
#include "job/network.h"

namespace spate::assembly {

struct ClientSettings {
  std::string config_file;
  std::vector<config::Override> overrides;
  std::string program;  // for `spate status`
  /// The user to act for, as a rule own_credential(). The holder of a user's key acts as that key's user instead.
  Credential credential;
  std::optional<Duration> deadline;  // deadline of one operation, instead of client.deadline
  bool server_key = false;           // fsck: also reads the server key
  /// Starts a thread that keeps the session alive and answers servers while no call runs. false for short-lived
  /// commands.
  bool background_thread = true;
  /// Starts a thread that only drives the executor, so that started operations progress without a waiting caller.
  bool progress_thread = false;
  /// State that outlives the process; may be null. Not owned.
  client::HandoverState* handover = nullptr;
  /// Caches attributes if client.attribute_cache is "on". For a long-lived process that is rarely stopped or killed.
  /// Other processes cache them only if it is "all" and they have a thread that answers recalls.
  bool may_keep_attributes = false;
  /// Whether listings fetch attributes to cache.
  client::Listings listings = client::Listings::kAuto;
  /// Keeps further copies of cached attributes; null: nobody does. Not owned.
  client::Copies* copies = nullptr;
  /// Room for gathered writes; null: none are gathered. Not owned.
  client::GatherMemory* gather = nullptr;
  /// Room for queued changes; null: none are queued. Not owned.
  client::QueueMemory* queue = nullptr;
  /// client::Options::on_wait
  std::function<void(const rpc::ServerWait&)> on_wait = {};
};

/// uid, gid and supplementary groups of this process.
Credential own_credential();

/// Thread-safe. Life cycle: open() -> run() by any threads -> destroyed, when no run() is active. The destructor ends
/// the session and waits for that, at most a second.
class ClientProcess {
 public:
  /// Reads the configuration and the key; no traffic yet.
  static Result<std::unique_ptr<ClientProcess>> open(const ClientSettings& settings);
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  client::Client& client() { return *client_; }
  const config::FileSystemConfig& config() const { return config_; }
  job::Executor& executor() { return executor_; }
  Clock& clock() { return clock_; }
  Random& random() { return random_; }

  client::Driver& driver() { return *driver_; }

  /// Runs `make(client)`, which returns a Task, to its end and returns its value. The calling thread does the work.
  template <typename Make>
  auto run(Make&& make) {
    return driver_->run([&]() { return make(*client_); });
  }

 private:
  explicit ClientProcess(config::FileSystemConfig config);

  config::FileSystemConfig config_;
  SystemClock clock_;
  SystemRandom random_;
  job::Executor executor_;
  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<client::Driver> driver_;
};

}  // namespace spate::assembly
