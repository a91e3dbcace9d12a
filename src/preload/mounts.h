// SPDX-License-Identifier: Apache-2.0
// Mount: a file system that this process sees below a prefix, with its client, which is started by the first call that
// needs it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "assembly/client_process.h"
#include "posix/file_system.h"
#include "preload/front.h"

namespace spate::preload {

/// Where this user's programs find the broker of a file system (preload/broker), and what it is started with.
struct BrokerPlace {
  std::uint64_t id = 0;  // of the configuration and the settings; never 0
  std::string config_file;
};

/// Thread-safe, but for forget() and end().
class Mount {
 public:
  explicit Mount(const MountPoint& point, unsigned index);

  const std::string& prefix() const { return prefix_; }
  /// st_dev of everything in it: the same in every program that has the same list of prefixes.
  dev_t device() const;

  /// Runs `make(posix::FileSystem&)`, which returns a Task<Result<T>>, to its end.
  template <typename Make>
  auto run(const Make& make) -> typename std::invoke_result_t<const Make&, posix::FileSystem&>::Value {
    auto running = client();
    if (!running) return std::move(running).error();
    Running& r = **running;
    return r.process->driver().run([&] { return make(r.files); });
  }

  /// What stat would answer, if it is kept under a lease; else nothing, also when the client has not been started.
  std::optional<Result<Attributes>> kept_attributes(const posix::Where& where) const;

  /// The same for all programs of this user that have the same configuration and settings.
  Result<BrokerPlace> broker() const;

  bool started() const { return running_ != nullptr; }
  /// In a child of fork(): the parent's client is left as it is, a new one is started when it is needed.
  void forget();
  /// Ends the session. No call is under way.
  void end();

 private:
  struct Running {
    explicit Running(std::unique_ptr<assembly::ClientProcess> p, const std::string& prefix)
        : process(std::move(p)), files(process->client(), posix::FileSystemOptions{0, prefix}) {}
    std::unique_ptr<assembly::ClientProcess> process;
    posix::FileSystem files;
  };
  Result<Running*> client();
  Result<std::unique_ptr<Running>> start() const;

  const std::string prefix_;
  const std::string config_;
  const unsigned index_;
  /// Standard error as it was at the start. A program may close it, and open a file of its own in its place.
  const std::optional<std::pair<dev_t, ino_t>> stderr_;
  std::unique_ptr<std::mutex> starting_ = std::make_unique<std::mutex>();
  std::unique_ptr<Running> running_;  // guarded by starting_ while it is null
  std::atomic<bool> keeps_{false};    // the client keeps attributes
};

/// The mount whose prefix is exactly `prefix`, or null.
Mount* mount_at(std::string_view prefix);
/// The mount that an absolute path without "." components is in, or null.
Mount* mount_of(std::string_view path);

/// As its names say, for all mounts.
void forget_clients();
void end_clients();
bool any_client_started();

}  // namespace spate::preload
