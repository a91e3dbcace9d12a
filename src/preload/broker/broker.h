// SPDX-License-Identifier: Apache-2.0
// Broker: serves the programs of one user and one file system (README.md).
#pragma once

#include <sys/types.h>

#include <list>

#include "preload/broker/channel.h"
#include "preload/broker/held.h"
#include "preload/broker/work.h"

namespace spate::preload {

/// Life cycle: make() -> run() returns -> destroyed, before `process`. One thread calls it. The requests to the servers
/// run in the client of `process`; their tasks have ended when run() returns, because it returns only when the broker
/// holds nothing.
class Broker {
 public:
  /// `listening`: the socket to which programs connect.
  static Result<std::unique_ptr<Broker>> make(assembly::ClientProcess& process, UniqueFd listening);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// Returns when no request has come for a while and the broker holds nothing.
  void run();

 private:
  struct Connection {
    std::shared_ptr<UniqueFd> socket;  // shared with the client's thread, which sends the answer
    pid_t pid = 0;
    std::unique_ptr<Work> work;  // at most one at a time
    MemoryIdentity file;         // the open file that the work concerns; empty: none
    std::uint64_t settles = 0;   // answers when the releases up to this number have ended; 0: does not wait
    bool lost = false;
  };

  Broker(assembly::ClientProcess& process, UniqueFd listening, std::unique_ptr<HeldFiles> files, UniqueFd wake);
  bool idle() const;
  void wait();
  void accept_all();
  void collect();
  void hear(Connection& connection);
  void take(Connection& connection, Packet packet);
  Result<void> prepare(Connection& connection, BrokerRequest& request, int memfd);
  void answer(Connection& connection, Errc error);
  void begin(Connection& connection, const BrokerRequest& request);
  Program* program_of(pid_t pid);
  void look_for_ended();
  bool in_use(const MemoryIdentity& file) const;
  bool at_work(pid_t pid) const;
  std::size_t connections_of(pid_t pid) const;
  void release_what_ended();
  void release(std::vector<Work::Owner> owners, std::unique_ptr<client::File> file);
  void settle();

  assembly::ClientProcess& process_;
  const UniqueFd listening_;
  const std::unique_ptr<HeldFiles> files_;
  const UniqueFd wake_;  // eventfd, written when some work is finished
  const std::uint64_t incarnation_;
  std::list<Connection> connections_;
  std::map<pid_t, Program> programs_;
  std::map<std::uint64_t, std::unique_ptr<Work>> releases_;
  std::uint64_t last_release_ = 0;
  std::uint64_t last_program_ = 0;
  MonoTime active_;
};

}  // namespace spate::preload
