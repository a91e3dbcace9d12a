// SPDX-License-Identifier: Apache-2.0
// The plant of renewals that disturb others.
#include <vector>

#include "tests/cluster/plants.h"

namespace spate::cluster {
namespace {

/// Refusing an expired capability, it ends what else the client has under way, as the handshake did that each renewal
/// sent to every io server; the client is told something else than that it may send it again.
class HarshService final : public rpc::Service {
 public:
  explicit HarshService(rpc::Service& inner) : inner_(inner) {
    for (const auto& row : inner.operations()) {
      const rpc::RawHandler* handler = &row.second.handler;
      serve_encoded(row.first, row.second.access,
                    [this, handler](rpc::Call& call, ByteView body) { return answer(*handler, call, body); });
    }
  }
  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    return inner_.join(peer, request, reply);
  }

 private:
  struct Active {
    ClientId client;
    bool ended = false;
  };

  job::Task<Result<Bytes>> answer(const rpc::RawHandler& handler, rpc::Call& call, ByteView body) {
    const auto active = std::make_shared<Active>(Active{call.peer->client});
    active_.push_back(active);
    auto result = co_await handler(call, body);
    std::erase(active_, active);
    if (result.code() == Errc::kCapabilityExpired) {
      for (const auto& other : active_) other->ended = other->ended || other->client == active->client;
    }
    if (active->ended && active->client) co_return Errc::kTryAgain;
    co_return result;
  }

  rpc::Service& inner_;
  std::vector<std::shared_ptr<Active>> active_;
};

}  // namespace

std::unique_ptr<rpc::Service> make_harsh_service(rpc::Service& inner) { return std::make_unique<HarshService>(inner); }

}  // namespace spate::cluster
