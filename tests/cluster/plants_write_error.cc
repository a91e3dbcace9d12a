// SPDX-License-Identifier: Apache-2.0
// A plant: an error of write-back is reported only once.
#include <map>

#include "tests/cluster/plants.h"
#include "wire/io_messages.h"

namespace spate::cluster {
namespace {

/// Reports each loss only to the first client that flushes, as the kernel does for one descriptor.
class ForgetfulService final : public rpc::Service {
 public:
  explicit ForgetfulService(rpc::Service& inner) : inner_(inner) {
    for (const auto& row : inner.operations()) {
      const rpc::RawHandler* handler = &row.second.handler;
      if (row.first == wire::Op::kDatafileFlush) {
        serve_encoded(row.first, row.second.access,
                      [this, handler](rpc::Call& call, ByteView body) { return flush(*handler, call, body); });
      } else {
        serve_encoded(row.first, row.second.access, *handler);
      }
    }
  }
  job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    return inner_.join(peer, request, reply);
  }

 private:
  job::Task<Result<Bytes>> flush(const rpc::RawHandler& handler, rpc::Call& call, ByteView body) {
    const auto request = wire::decode_body<wire::DatafileFlushRequest>(body);
    auto result = co_await handler(call, body);
    if (!request || !result) co_return result;
    SPATE_CO_TRY(auto reply, wire::decode_body<wire::DatafileFlushReply>(*result));
    for (std::size_t i = 0; i < reply.lost.size(); ++i) {
      std::uint64_t& told = told_[{request->handle, request->slots[i].slot}];
      if (reply.lost[i] == told) reply.lost[i] = 0;
      told = std::max(told, reply.lost[i]);
    }
    Bytes changed;
    wire::encode_body(reply, changed);
    co_return changed;
  }

  rpc::Service& inner_;
  std::map<DatafileId, std::uint64_t> told_;
};

}  // namespace

std::unique_ptr<rpc::Service> make_forgetful_service(rpc::Service& inner) {
  return std::make_unique<ForgetfulService>(inner);
}

}  // namespace spate::cluster
