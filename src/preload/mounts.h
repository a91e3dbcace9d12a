// SPDX-License-Identifier: Apache-2.0
// Mount: a file system that this process sees below a prefix, with its client. The first call that needs the client
// starts it.
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

/// How this user's programs find the broker of a file system (preload/broker), and how it is started.
struct BrokerPlace {
  std::uint64_t id = 0;  // of the configuration and the settings; never 0
  std::string config_file;
};

/// A file system below a prefix, with its client.
///
/// Life cycle: construct -> the first call that needs the client starts it -> end(), which closes the session and waits
/// for that, a second at most. mounts() never destroys it. In a child of fork(): forget(), and from then on as after
/// construction. If the client cannot be started, the call fails with kIoError, and the next one tries again.
/// Thread-safe, except for forget() and end(), during which no other call may run.
class Mount {
 public:
  explicit Mount(const MountPoint& point, unsigned index);

  const std::string& prefix() const { return prefix_; }
  /// st_dev of all objects in it. Programs with the same list of prefixes get the same number.
  dev_t device() const;

  /// Runs `make(posix::FileSystem&)`, which returns a Task<Result<T>>, to its end.
  template <typename Make>
  auto run(const Make& make) -> typename std::invoke_result_t<const Make&, posix::FileSystem&>::Value {
    SPATE_TRY(auto running, client());
    Running& r = *running;
    return r.process->driver().run([&] { return make(r.files); });
  }

  /// The answer of stat, if the client has it under a lease. Nothing if not, or if the client has not been started.
  std::optional<Result<Attributes>> kept_attributes(const posix::PathAt& where) const;

  /// All programs of this user with the same configuration and settings get the same place.
  Result<BrokerPlace> broker() const;

  bool started() const { return running_ != nullptr; }
  /// Call it in a child of fork(). Leaves the parent's client as it is; a new client is started when one is needed.
  void forget();
  /// Ends the session. No call may be under way.
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
  /// Identifies the file of standard error at the start. A program may close it, and open another in its place.
  const std::optional<std::pair<dev_t, ino_t>> stderr_;
  std::unique_ptr<std::mutex> starting_ = std::make_unique<std::mutex>();
  std::unique_ptr<Running> running_;  // guarded by starting_ while it is null
  bool told_ = false;                 // that the client could not be started; guarded by starting_
  std::atomic<bool> keeps_{false};    // the client caches attributes
};

/// The mount whose prefix is exactly `prefix`, or null.
Mount* mount_at(std::string_view prefix);
/// The mount in which an absolute path without "." components lies, or null.
Mount* mount_of(std::string_view path);

/// forget() and end() of all mounts.
void forget_clients();
void end_clients();
bool any_client_started();

}  // namespace spate::preload
