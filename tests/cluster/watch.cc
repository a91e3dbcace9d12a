// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/watch.h"

namespace spate::cluster {
namespace {

class Watched final : public rpc::Service {
 public:
  Watched(RequestWatch* watch, ServerId server, rpc::Service& inner) : watch_(watch), server_(server), inner_(inner) {
    for (const auto& row : inner.operations()) {
      const wire::Op op = row.first;
      const rpc::RawHandler* handler = &row.second.handler;
      serve_encoded(op, row.second.access,
                    [this, op, handler](rpc::Call& call, ByteView body) { return run(op, *handler, call, body); });
    }
  }

  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    const Passage passage(watch_, server_, wire::Op::kAuthenticate);
    auto joined = co_await inner_.join(peer, request, reply);
    co_return joined;
  }

 private:
  struct Passage {
    Passage(RequestWatch* watch_in, ServerId server_in, wire::Op op_in)
        : watch(watch_in), server(server_in), op(op_in) {
      if (watch != nullptr) watch->begin(server, op);
    }
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;
    ~Passage() {
      if (watch != nullptr) watch->end(server, op);
    }
    RequestWatch* watch;
    ServerId server;
    wire::Op op;
  };

  job::Task<Result<Bytes>> run(wire::Op op, const rpc::RawHandler& handler, rpc::Call& call, ByteView body) {
    const Passage passage(watch_, server_, op);
    auto result = co_await handler(call, body);
    co_return result;
  }

  RequestWatch* watch_;
  const ServerId server_;
  rpc::Service& inner_;
};

}  // namespace

std::vector<wire::Op> RequestWatch::under_way(ServerId server) const {
  std::vector<wire::Op> ops;
  const auto found = under_way_.find(server);
  if (found == under_way_.end()) return ops;
  for (const auto& [op, count] : found->second) {
    if (count > 0) ops.push_back(op);
  }
  return ops;
}

void RequestWatch::begin(ServerId server, wire::Op op) {
  ++under_way_[server][op];
  if (arrival_) arrival_(server, op);
}

void RequestWatch::end(ServerId server, wire::Op op) { --under_way_[server][op]; }

std::unique_ptr<rpc::Service> watched(RequestWatch* watch, ServerId server, rpc::Service& inner) {
  return std::make_unique<Watched>(watch, server, inner);
}

}  // namespace spate::cluster
