// SPDX-License-Identifier: Apache-2.0
// Server: listens, and serves exports to any number of clients. docs/block.md.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "job/event.h"
#include "nbd/access.h"
#include "nbd/connection.h"
#include "nbd/listener.h"
#include "nbd/tls.h"

namespace spate::nbd {

struct Export {
  std::string name;
  AccessList access;
  std::unique_ptr<Device> device;
};

struct ServerOptions {
  bool tls_required = false;  // for every client, except those of a Unix socket
  bool has_default = true;    // a client that names no export gets the first one that it may use
  std::size_t max_connections = 1024;
  std::uint32_t send_file_from = 0;  // 0: kSendFileFromTcp, kSendFileFromUnix
};

/// Life cycle: construct -> add(), listen() -> stop() awaited once -> destroyed. One executor; sockets and TLS context
/// outlive it. The destructor requires that no connection is left, so a server that has listened must be stopped.
///
/// At max_connections the server stops accepting; further clients wait in the kernel's queue until a connection ends.
/// It also stops for a while if the process has no descriptors or memory for another client. All connections share one
/// MemoryBudget: a client that holds memory without progress while others wait is dropped.
class Server final : private ConnectionHost {
 public:
  Server(job::Executor& executor, SocketSource& sockets, TlsContext* tls, ServerOptions options);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Adds an export with a new name. The first one is the default export. Connected clients may use it, too.
  void add(Export exported);
  /// Accepts clients on the socket from now on. Fails with kNoMemory if the kernel watches no more sockets; the socket
  /// is closed then, and the server is unchanged. Not after stop().
  Result<void> listen(ListeningSocket socket);
  /// The URLs of an export: "nbd://127.0.0.1:10809/name".
  std::vector<std::string> urls(std::string_view name) const;

  /// Accepts no more clients and no more requests, and closes the listening sockets. Waits at most `grace` until the
  /// requests in flight are answered, and then drops unsent replies. Operations on devices are never aborted: stop()
  /// waits for them without a limit. At last it closes every device. The failure that it returns is the first one of a
  /// device's close(); the server has stopped in that case, too.
  job::Task<Result<void>> stop(Duration grace);

 private:
  class Listener;
  class View;

  std::unique_ptr<Catalogue> catalogue(const ClientAddress& peer) override;
  Device& device(const std::string& name) override;
  Result<std::unique_ptr<Transport>> start_tls(int socket) override;
  void ended(Connection& connection) override;

  void take(Accepted client);
  bool full() const { return connections_.size() >= options_.max_connections; }
  void listen_again();
  void drop_stalled();

  job::Executor& executor_;
  SocketSource& sockets_;
  TlsContext* const tls_;
  const ServerOptions options_;
  ReplyBuffers buffers_;
  Pipes pipes_;
  std::size_t memory_in_flight_ = 0;
  MemoryBudget budget_;
  ConnectionWorld world_;
  ConnectionWorld unix_world_;
  std::deque<Export> exports_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  job::Event all_ended_;
  bool stopping_ = false;
};

}  // namespace spate::nbd
