// SPDX-License-Identifier: Apache-2.0
// A plant: the renewal of a capability disturbs other requests.
#include <vector>

#include "tests/cluster/plants.h"

namespace spate::cluster {
namespace {

/// When it refuses an expired capability, it also ends the client's other requests, as a handshake does. Earlier, each
/// renewal made a handshake with every io server. The client gets an error that does not allow it to resend.
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
