// SPDX-License-Identifier: Apache-2.0
#include "nbd/server.h"

#include <fmt/core.h>
#include <sys/epoll.h>

#include <algorithm>

#include "job/deadline.h"
#include "log/log.h"

namespace spate::nbd {
namespace {

/// How long no client is accepted after the process has run out of descriptors.
constexpr Duration kExhaustedPause = std::chrono::milliseconds(200);
constexpr int kAcceptsATurn = 32;

ExportInfo describe(const Export& exported, const std::string& name) {
  ExportInfo info;
  info.name = name;
  info.description = exported.device->describe();
  info.size = exported.device->size();
  info.preferred_block = exported.device->preferred_block();
  info.flags = kHasFlags | kSendFlush | kSendFua | kCanMultiConn | kSendCache;
  info.flags |= exported.device->read_only() ? kReadOnly : kSendTrim | kSendWriteZeroes | kSendFastZero;
  return info;
}

/// Escapes the name for a URL.
std::string escaped(std::string_view name) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string text;
  for (const char c : name) {
    if (kPlain.find(c) != std::string_view::npos)
      text += c;
    else
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

}  // namespace

/// Accepts clients on one socket.
class Server::Listener final : public ReadyHandler {
 public:
  Listener(Server& server, ListeningSocket socket)
      : server_(server), socket_(std::move(socket)), pause_(server.executor_) {}
  ~Listener() override {
    if (watched_) server_.sockets_.remove(socket_.fd.get());
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Result<void> watch() {
    SPATE_TRY(std::ignore, server_.sockets_.add(socket_.fd.get(), EPOLLIN, *this));
    watched_ = true;
    return {};
  }
  void go_on() {
    pause_.disarm();
    server_.sockets_.change(socket_.fd.get(), EPOLLIN);
  }
  const std::string& url() const { return socket_.url; }

  void on_ready(std::uint32_t /*events*/) override {
    for (int i = 0; i < kAcceptsATurn; ++i) {
      if (server_.full()) return server_.sockets_.change(socket_.fd.get(), 0);
      auto client = accept_client(socket_.fd.get());
      if (client.code() == Errc::kBusy) return pause();
      if (!client) return;
      server_.take(*std::move(client));
    }
  }

 private:
  void pause() {
    SPATE_LOG("nbd", warn, "no descriptors or memory left for more clients connections={}",
              server_.connections_.size());
    server_.sockets_.change(socket_.fd.get(), 0);
    pause_.arm(
        server_.executor_.now() + kExhaustedPause, [](void* self) { static_cast<Listener*>(self)->go_on(); }, this);
  }
  Server& server_;
  ListeningSocket socket_;
  job::Executor::Timer pause_;
  bool watched_ = false;
};

/// The exports that one client sees.
class Server::View final : public Catalogue {
 public:
  View(Server& server, const ClientAddress& peer) : server_(server), peer_(peer) {}

  void identified(std::vector<std::string> identities) override { identities_ = std::move(identities); }

  std::vector<std::string> names() override {
    std::vector<std::string> names;
    for (const Export& one : server_.exports_) {
      if (may_use(one)) names.push_back(one.name);
    }
    return names;
  }
  std::optional<ExportInfo> find(std::string_view name) override {
    const Export* const one = export_of(name);
    return one != nullptr ? std::optional(describe(*one, one->name)) : std::nullopt;
  }
  std::optional<std::string> to_look_at(std::string_view name) override {
    const Export* const one = export_of(name);
    return one != nullptr && one->device->has_to_look() ? std::optional(one->name) : std::nullopt;
  }

 private:
  const Export* export_of(std::string_view name) const {
    for (const Export& one : server_.exports_) {
      if (may_use(one) && (one.name == name || (name.empty() && server_.options_.has_default))) return &one;
    }
    return nullptr;
  }
  bool may_use(const Export& one) const { return one.access.allows(peer_.ip, identities_); }
  Server& server_;
  const ClientAddress peer_;
  std::vector<std::string> identities_;
};

Server::Server(job::Executor& executor, SocketSource& sockets, TlsContext* tls, ServerOptions options)
    : executor_(executor),
      sockets_(sockets),
      tls_(tls),
      options_(options),
      budget_(
          executor, MemoryBudget::kBytes, [](void* self) { static_cast<Server*>(self)->drop_stalled(); }, this),
      world_{executor,
             sockets,
             buffers_,
             pipes_,
             memory_in_flight_,
             budget_,
             *this,
             {tls != nullptr, options.tls_required},
             options.send_file_from != 0 ? options.send_file_from : kSendFileFromTcp},
      unix_world_(world_),
      all_ended_(executor) {
  unix_world_.policy.tls_required = false;
  if (options.send_file_from == 0) unix_world_.send_file_from = kSendFileFromUnix;
  unix_world_.spliced_from = kSplicedFromUnix;
}

Server::~Server() { SPATE_CHECK(connections_.empty()); }

void Server::add(Export exported) { exports_.push_back(std::move(exported)); }

Result<void> Server::listen(ListeningSocket socket) {
  auto listener = std::make_unique<Listener>(*this, std::move(socket));
  SPATE_TRY(std::ignore, listener->watch());
  listeners_.push_back(std::move(listener));
  return {};
}

std::vector<std::string> Server::urls(std::string_view name) const {
  std::vector<std::string> all;
  for (const auto& listener : listeners_) {
    std::string url = listener->url();
    if (options_.tls_required && url.starts_with("nbd://")) url.insert(3, "s");
    if (const std::size_t query = url.find('?'); query != std::string::npos) {
      url.insert(query, escaped(name));
    } else if (!name.empty()) {
      url += "/" + escaped(name);
    }
    all.push_back(std::move(url));
  }
  return all;
}

std::unique_ptr<Catalogue> Server::catalogue(const ClientAddress& peer) { return std::make_unique<View>(*this, peer); }

Device& Server::device(const std::string& name) {
  const auto found = std::ranges::find(exports_, name, &Export::name);
  SPATE_CHECK(found != exports_.end());
  return *found->device;
}

Result<std::unique_ptr<Transport>> Server::start_tls(int socket) {
  if (tls_ == nullptr) return Errc::kNotSupported;
  return tls_->accept(socket);
}

void Server::take(Accepted client) {
  SPATE_LOG("nbd", debug, "client connected peer={}", client.text);
  ConnectionWorld& world = client.ip.empty() ? unix_world_ : world_;
  auto connection = std::make_unique<Connection>(world, std::move(client.fd),
                                                 ClientAddress{std::move(client.text), std::move(client.ip)});
  Connection& started = *connection;
  connections_.emplace(&started, std::move(connection));
  started.start();
}

void Server::ended(Connection& connection) {
  executor_.at_turn_end([this, gone = &connection] {
    const bool was_full = full();
    connections_.erase(gone);
    if (connections_.empty()) all_ended_.set();
    if (was_full && !stopping_) listen_again();
  });
}

void Server::listen_again() {
  for (const auto& listener : listeners_) listener->go_on();
}

void Server::drop_stalled() {
  for (const auto& [connection, owned] : connections_) connection->drop_if_stalled();
}

job::Task<Result<void>> Server::stop(Duration grace) {
  stopping_ = true;
  listeners_.clear();
  for (const auto& [connection, owned] : connections_) connection->finish();
  const MonoTime until = executor_.now() + grace;
  while (!connections_.empty()) {
    all_ended_.reset();
    job::DeadlineScope deadline(executor_, until, {});
    const auto ended = co_await all_ended_.wait(deadline.token());
    if (ended || connections_.empty()) continue;
    for (const auto& [connection, owned] : connections_) connection->abandon("the server ends");
    all_ended_.reset();
    std::ignore = co_await all_ended_.wait();  // operations on a disk end by themselves
  }
  Result<void> closed;
  for (const Export& one : exports_) {
    auto result = co_await one.device->close();
    if (!result && closed) closed = std::move(result);
  }
  co_return closed;
}

}  // namespace spate::nbd
