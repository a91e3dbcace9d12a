// SPDX-License-Identifier: Apache-2.0
// Supervisor: the process that outlives the processes that serve a mount (docs/mount.md, "Restart and upgrade").
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

/// Holds /dev/fuse and the handover state, and starts the serving process as its child. Starts another one when that
/// one is killed or hands over. Unmounts. Does nothing else, so that little can end it. One thread. Life cycle:
/// construct -> run().
class Supervisor {
 public:
  /// `words`: the command line without the program's name. `ready` is called once the directory is mounted and served.
  /// `host` and `clock` outlive this object.
  Supervisor(MountOptions options, std::vector<std::string> words, std::function<void()> ready, SupervisorHost& host,
             Clock& clock);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Runs until the directory is unmounted. Returns the process's exit status; errors have gone to standard error and
  /// the log.
  int run();

  /// The steps of run(): begin(), then look() until ended().
  Result<void> begin();
  /// Waits for the next event, at most `most_ms` (-1: without limit), and handles it.
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
  void drain(std::string why);
  void on_caller();
  void on_request();
  void ask_server();
  void tell_status(const std::string& of_server);
  Result<void> check_program(const std::string& program);
  void answer(MessageKind word, const std::string& text);
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
  UniqueFd device_;                       // /dev/fuse, once the directory is mounted
  UniqueFd control_;                      // to the server
  UniqueFd listener_;                     // takes commands
  UniqueFd caller_;                       // the command that asked for an upgrade
  std::vector<UniqueFd> status_waiters_;  // commands that wait for the server's status
  std::string program_ = "/proc/self/exe";
  std::string next_program_;  // not empty while an upgrade is under way
  pid_t server_ = -1;
  pid_t unmounter_ = -1;
  bool mounted_ = false;  // stays true once it is
  bool serving_ = false;  // the present server serves
  bool served_ = false;   // some server has served
  bool can_resend_ = false;
  bool stopping_ = false;
  std::string given_up_why_;  // not empty once a server drains: why the mount is given up then
  bool ended_ = false;
  int status_ = 0;
  MonoTime kill_at_ = MonoTime::never();
  std::deque<MonoTime> crashes_;
};

}  // namespace spate::fuse
