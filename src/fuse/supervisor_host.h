// SPDX-License-Identifier: Apache-2.0
// SupervisorHost: the part of the system that a mount's supervisor uses: processes, signals, and the mount itself.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "fuse/options.h"

namespace spate::fuse {

/// Describes how a child has ended, for people.
std::string described(int status);

/// An interface, so that a fuzzer can replace it. One thread.
class SupervisorHost {
 public:
  virtual ~SupervisorHost() = default;

  /// Call it first. From then on signals() reports signals.
  virtual Result<void> prepare() = 0;
  /// A descriptor that is readable when a signal has come.
  virtual int signals() const = 0;
  /// The number of the next signal that has come; 0: there is none.
  virtual int next_signal() = 0;
  struct Ended {
    pid_t child = -1;
    int status = 0;  // as waitpid(2) returns it
  };
  /// A child that has ended. Each one is returned once.
  virtual std::optional<Ended> next_ended() = 0;

  /// Starts a server of the mount as a child; `control` is its socket to the supervisor. `drains`: it does not serve,
  /// but sends what was gathered, gives back the session, and ends.
  virtual Result<pid_t> start_server(const std::string& program, UniqueFd control, bool drains) = 0;
  virtual void kill_server(pid_t server) = 0;
  /// Whether servers of this mount may gather writes, or queue changes.
  virtual bool gathers() const = 0;
  /// The gathered writes and queued changes that no server process has sent, for people. Call it while there is no
  /// server.
  virtual std::vector<std::string> left_gathered() = 0;
  /// Whether `program` can continue this mount. Waits for its answer for up to 10 s.
  virtual Result<void> check_program(const std::string& program) = 0;

  /// Mounts, and returns /dev/fuse. Call it once.
  virtual Result<UniqueFd> mount(const std::string& mount_options) = 0;
  /// Whether the kernel has ended the connection of /dev/fuse, because the directory was unmounted.
  virtual bool is_over(int device) = 0;
  /// Unmounts the directory of mount() in a child, because the kernel may wait for the server to write dirty pages.
  /// Closes `device` first. Negative: there is no child.
  virtual pid_t start_unmount(UniqueFd device) = 0;

  /// Listens for commands, once the directory is mounted. Nothing: no command can reach this supervisor.
  virtual std::optional<UniqueFd> listen() = 0;
  /// Call it before that socket is closed.
  virtual void stop_listening() = 0;
};

/// The real system. Life cycle: construct -> prepare() -> other calls -> stop_listening() -> destroyed. One thread: the
/// only one of the supervisor.
class SystemHost final : public SupervisorHost {
 public:
  /// `words`: the command line without the program's name. `options` outlives this object.
  SystemHost(const MountOptions& options, std::vector<std::string> words)
      : options_(options), words_(std::move(words)) {}

  Result<void> prepare() override;
  int signals() const override { return signals_.get(); }
  int next_signal() override;
  std::optional<Ended> next_ended() override;
  Result<pid_t> start_server(const std::string& program, UniqueFd control, bool drains) override;
  void kill_server(pid_t server) override;
  bool gathers() const override { return gather_ || queue_; }
  std::vector<std::string> left_gathered() override;
  Result<void> check_program(const std::string& program) override;
  Result<UniqueFd> mount(const std::string& mount_options) override;
  bool is_over(int device) override;
  pid_t start_unmount(UniqueFd device) override;
  std::optional<UniqueFd> listen() override;
  void stop_listening() override;

 private:
  struct Deleter {
    void operator()(fuse_session* session) const { fuse_session_destroy(session); }
  };
  [[noreturn]] void become_server(const std::string& program, int control, bool drains);

  const MountOptions& options_;
  const std::vector<std::string> words_;
  UniqueFd signals_;
  UniqueFd handover_;
  UniqueFd gather_;                                 // memory of gathered writes, empty without the option
  UniqueFd queue_;                                  // memory of queued changes; none without the option
  std::unique_ptr<fuse_session, Deleter> session_;  // used only to mount and unmount
  std::string directory_;                           // the mounted directory, absolute
  std::string device_number_;                       // number of the device for which it listens
};

}  // namespace spate::fuse
