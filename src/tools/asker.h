// SPDX-License-Identifier: Apache-2.0
// Asker: sends a request that every server answers to several servers at once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fsck/servers.h"
#include "job/gate.h"
#include "tools/context.h"

namespace spate::tools {

/// Servers answer only callers with a session or the server key. If no meta server listens, no session can be opened,
/// and the server key is used. That is decided once, in open(). Life cycle: open() -> ask(), wait() -> destroyed before
/// the context. One thread, which does the work of the calls.
///
/// open() makes the context silent about dead servers, since callers report each server themselves. ask() opens the
/// session if there is none, and then waits until every server has answered or kDeadline has passed; the requests run
/// at the same time. A server that did not answer is asked again by the next ask().
class Asker {
 public:
  static Result<Asker> open(Context& context);

  /// The largest accepted reply, bytes.
  static constexpr std::uint32_t kReplyRoom = 2U << 20U;
  static constexpr Duration kDeadline = std::chrono::seconds(5);

  assembly::ClientProcess& process() { return *process_; }
  /// Each server's reply or error. Fails if no server could be asked.
  template <typename Reply, typename Request>
  Result<std::map<ServerId, Result<Reply>>> ask(const Request& request, const std::vector<ServerId>& servers);
  /// Keeps the session alive meanwhile.
  void wait(Duration span);

 private:
  Asker() = default;
  template <typename Reply, typename Request>
  using Ask = job::Task<Result<Reply>> (*)(Asker&, const Request&, ServerId);

  template <typename Reply, typename Request>
  static job::Task<Result<Reply>> by_session(Asker& self, const Request& request, ServerId server);
  template <typename Reply, typename Request>
  static job::Task<Result<Reply>> by_key(Asker& self, const Request& request, ServerId server);
  template <typename Reply, typename Request>
  static job::Task<void> ask_into(Ask<Reply, Request> ask, Asker& self, const Request& request, ServerId server,
                                  Result<Reply>& out);
  template <typename Reply, typename Request>
  static job::Task<void> ask_all(Ask<Reply, Request> ask, Asker& self, const Request& request,
                                 std::map<ServerId, Result<Reply>>& all);
  Result<void> connect();
  assembly::ClientProcess& asking() { return keyed_ ? *keyed_ : *process_; }
  Result<rpc::Channel*> channel(ServerId server);

  assembly::ClientProcess* process_ = nullptr;  // the context's
  std::unique_ptr<assembly::ClientProcess> keyed_;
  std::unique_ptr<fsck::Servers> servers_;  // with the server key only
};

/// The servers with these numbers; all if there are none. kInvalidArgument: spate.toml has no such server.
Result<std::vector<ServerId>> chosen_servers(const config::FileSystemConfig& config,
                                             const std::vector<std::string>& numbers);

template <typename Reply, typename Request>
job::Task<Result<Reply>> Asker::by_session(Asker& self, const Request& request, ServerId server) {
  SPATE_CO_TRY(rpc::Channel* const channel, self.channel(server));
  rpc::CallOptions options;
  options.deadline = self.process_->client().cluster().executor().now() + kDeadline;
  options.reply_room = kReplyRoom;
  auto reply = co_await channel->call<Reply>(request, options);
  co_return reply;
}

template <typename Reply, typename Request>
job::Task<Result<Reply>> Asker::by_key(Asker& self, const Request& request, ServerId server) {
  auto reply = co_await self.servers_->ask_io<Reply>(server, request, kReplyRoom);
  co_return reply;
}

template <typename Reply, typename Request>
job::Task<void> Asker::ask_into(Ask<Reply, Request> ask, Asker& self, const Request& request, ServerId server,
                                Result<Reply>& out) {
  out = co_await ask(self, request, server);
}

template <typename Reply, typename Request>
job::Task<void> Asker::ask_all(Ask<Reply, Request> ask, Asker& self, const Request& request,
                               std::map<ServerId, Result<Reply>>& all) {
  job::Gate gate(self.asking().client().cluster().executor());
  for (auto& [server, reply] : all) job::spawn(gate, ask_into<Reply, Request>(ask, self, request, server, reply));
  co_await gate.close();
}

template <typename Reply, typename Request>
Result<std::map<ServerId, Result<Reply>>> Asker::ask(const Request& request, const std::vector<ServerId>& servers) {
  SPATE_TRY(std::ignore, connect());
  std::map<ServerId, Result<Reply>> all;
  for (const ServerId server : servers) all.emplace(server, Errc::kUnknown);
  const Ask<Reply, Request> how = keyed_ ? &by_key<Reply, Request> : &by_session<Reply, Request>;
  asking().run([&](client::Client&) { return ask_all<Reply, Request>(how, *this, request, all); });
  return all;
}

}  // namespace spate::tools
