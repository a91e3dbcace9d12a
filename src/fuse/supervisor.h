// SPDX-License-Identifier: Apache-2.0
// Supervisor: the process that outlives those that serve a mount (docs/mount.md, "Restart and upgrade").
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "fuse/control.h"
#include "fuse/options.h"
#include "fuse/supervisor_host.h"

namespace spate::fuse {

/// Holds /dev/fuse and the handover state, starts the process that serves (its child), starts another when that one is
/// killed or hands over, and unmounts. Does nothing else, so that there is little that could end it; one thread. Life:
/// construct -> run().
class Supervisor {
 public:
  /// `words`: the command line, without the program's name. `ready` is called once the directory is mounted and served.
  /// `host` and `clock` outlive it.
  Supervisor(MountOptions options, std::vector<std::string> words, std::function<void()> ready, SupervisorHost& host,
             Clock& clock);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Until it is unmounted. The process's exit status; errors have been written to standard error and the log.
  int run();

  /// What run() does, step by step: begin(), then look() until ended().
  Result<void> begin();
  /// Waits for what comes next, at most `most_ms` (-1: as long as it takes), and does what it asks for.
  void look(int most_ms);
  bool ended() const { return ended_; }

 private:
  Result<void> start(const std::string& program);
  void kill_server();
  void on_signals();
  void on_server();
  void on_server_message(Message message);
  void on_server_end(int status);
  void on_crash(const std::string& how);
  void start_successor();
  void on_caller();
  void on_request();
  void ask_server();
  void tell_status(const std::string& of_server);
  Result<void> check_program(const std::string& program);
  void answer(Word word, const std::string& text);
  Result<void> mount(const std::string& mount_options);
  void stop_listening();
  void stop();
  void give_up(const std::string& why);
  void end(int status);

  const MountOptions options_;
  const std::vector<std::string> words_;
  std::function<void()> ready_;
  SupervisorHost& host_;
  Clock& clock_;
  UniqueFd device_;                       // /dev/fuse, once it is mounted
  UniqueFd control_;                      // to the server
  UniqueFd listener_;                     // for who asks for an upgrade
  UniqueFd caller_;                       // who has asked
  std::vector<UniqueFd> status_waiters_;  // who wait for what the server tells of itself
  std::string program_ = "/proc/self/exe";
  std::string next_program_;  // an upgrade is under way
  pid_t server_ = -1;
  pid_t unmounter_ = -1;
  bool mounted_ = false;  // stays true
  bool serving_ = false;  // the server of now
  bool served_ = false;   // any has
  bool can_resend_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  int status_ = 0;
  MonoTime kill_at_ = MonoTime::never();
  std::deque<MonoTime> crashes_;
};

}  // namespace spate::fuse
