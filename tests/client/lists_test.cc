// SPDX-License-Identifier: Apache-2.0
// Lists: reads and writes of many pieces, in any order.
#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

class ClientLists : public ClientData {
 protected:
  ClientLists() : ClientData(2) {}

  /// Pieces that do not overlap, in random order.
  std::vector<Extent> draw_pieces() {
    std::vector<Extent> pieces;
    std::uint64_t at = random_.below(3 * kStrip);
    for (std::uint64_t n = 2 + random_.below(40); n > 0; --n) {
      pieces.push_back({at, 1 + random_.below(random_.chance(1, 10) ? 9 * kStrip : 300)});
      at += pieces.back().size + random_.below(2 * kStrip);
    }
    if (random_.chance(1, 2)) {
      for (std::size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random_.below(i)]);
    }
    return pieces;
  }
};

TEST_F(ClientLists, RandomListsEqualAModel) {
  auto file = create("lists");
  ASSERT_NE(file, nullptr);
  Bytes model;
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const std::vector<Extent> pieces = draw_pieces();
    const auto what = datatype::Description::list(pieces);
    ASSERT_OK(what);
    Bytes stream = bytes(what->total_bytes());
    std::size_t at = 0;
    if (random_.chance(1, 2)) {
      for (const Extent& piece : pieces) {
        model.resize(std::max<std::size_t>(model.size(), piece.offset + piece.size));
        std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), piece.size,
                    model.begin() + static_cast<std::ptrdiff_t>(piece.offset));
        at += piece.size;
      }
      const std::array<ByteView, 1> memory{stream};
      ASSERT_OK(executor_.run(file->write_list(*what, memory)));
      continue;
    }
    Bytes expected;
    for (const Extent& piece : pieces) {
      const std::size_t there = piece.offset >= model.size() ? 0 : std::min(piece.size, model.size() - piece.offset);
      expected.insert(expected.end(), model.begin() + static_cast<std::ptrdiff_t>(there > 0 ? piece.offset : 0),
                      model.begin() + static_cast<std::ptrdiff_t>(there > 0 ? piece.offset + there : 0));
      if (there < piece.size) break;  // a read ends at the end of the file
    }
    const std::array<MutableByteView, 1> memory{stream};
    const auto n = executor_.run(file->read_list(*what, memory));
    ASSERT_OK(n);
    ASSERT_EQ(*n, expected.size());
    ASSERT_BYTES(ByteView(stream).first(*n), expected);
  }
  EXPECT_OK(executor_.run(file->close()));
}

/// An io server that answers every read with an error, and keeps the requested pieces.
class Recorder final : public rpc::Service {
 public:
  Recorder() { serve(rpc::Access::kWriters, this, &Recorder::read); }
  std::vector<datatype::Description> asked;
  job::Task<Result<void>> join(rpc::Peer&, const wire::AuthenticateRequest& request,
                               wire::AuthenticateReply& reply) override {
    reply.client = request.client;
    reply.ticket = request.ticket.value();
    reply.epoch = reply.ticket.epoch;
    co_return Result<void>();
  }

 private:
  job::Task<Result<wire::ReadReply>> read(rpc::Call&, wire::ReadRequest request) {
    asked.push_back(std::move(request.what));
    co_return Errc::kIoError;
  }
};

TEST_F(ClientLists, AServerIsAskedForThePiecesThatItHolds) {
  Recorder recorder;
  IoHost& host = *io_.front();  // it holds slots 0 and 3 of each stripe of six strips
  executor_.run(host.server->stop());
  host.server = std::make_unique<rpc::Server>(host.server->options(), *host.context, random_, host.metrics);
  host.server->add(recorder);
  host.server->start();
  auto file = create("parts");
  ASSERT_NE(file, nullptr);
  std::vector<Extent> pieces;
  for (std::uint64_t strip = 0; strip < 12; ++strip) pieces.push_back({strip * kStrip + 100, 50});
  Bytes memory_bytes(12 * 50);
  const std::array<MutableByteView, 1> memory{memory_bytes};
  const auto n = executor_.run(file->read_list(*datatype::Description::list(pieces), memory));
  EXPECT_ERRC(n, Errc::kIoError);
  const std::vector<Extent> own{{100, 50}, {3 * kStrip + 100, 50}, {6 * kStrip + 100, 50}, {9 * kStrip + 100, 50}};
  ASSERT_EQ(recorder.asked.size(), 1U);
  EXPECT_EQ(recorder.asked.front(), *datatype::Description::list(own));
  EXPECT_OK(executor_.run(file->close()));
  executor_.run(host.server->stop());
}

}  // namespace
}  // namespace spate::client::testing
