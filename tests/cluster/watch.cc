// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/watch.h"

namespace spate::cluster {
namespace {

class Watched final : public rpc::Service {
 public:
  Watched(RequestWatch& watch, ServerId server, rpc::Service& inner) : watch_(watch), server_(server), inner_(inner) {
    for (const auto& row : inner.operations()) {
      const wire::Op op = row.first;
      const rpc::RawHandler* handler = &row.second.handler;
      serve_encoded(op, row.second.access,
                    [this, op, handler](rpc::Call& call, ByteView body) { return run(op, *handler, call, body); });
    }
  }

  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    const Passage passage(watch_, {server_, wire::Op::kAuthenticate, request.client, {}, MonoTime::never()});
    auto joined = co_await inner_.join(peer, request, reply);
    co_return joined;
  }

 private:
  struct Passage {
    Passage(RequestWatch& watch_in, const WatchedRequest& request) : watch(watch_in), place(watch.begin(request)) {}
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;
    ~Passage() { watch.end(place); }
    RequestWatch& watch;
    RequestWatch::Place place;
  };

  job::Task<Result<Bytes>> run(wire::Op op, const rpc::RawHandler& handler, rpc::Call& call, ByteView body) {
    const Passage passage(watch_, {server_, op, call.peer->client, call.header.trace, MonoTime::never()});
    auto result = co_await handler(call, body);
    co_return result;
  }

  RequestWatch& watch_;
  const ServerId server_;
  rpc::Service& inner_;
};

}  // namespace

void RequestWatch::forget_answered() {
  const MonoTime now = clock_.now();
  under_way_.remove_if([now](const WatchedRequest& request) {
    return request.ended != MonoTime::never() && request.ended + kOnTheWay < now;
  });
}

const std::list<WatchedRequest>& RequestWatch::under_way() {
  forget_answered();
  return under_way_;
}

RequestWatch::Place RequestWatch::begin(const WatchedRequest& request) {
  forget_answered();
  under_way_.push_back(request);
  if (arrival_) arrival_(request);
  return std::prev(under_way_.end());
}

std::unique_ptr<rpc::Service> watched(RequestWatch& watch, ServerId server, rpc::Service& inner) {
  return std::make_unique<Watched>(watch, server, inner);
}

}  // namespace spate::cluster
