// SPDX-License-Identifier: Apache-2.0
// The client library's reads and writes against real io servers over TCP, in one process.
#include <optional>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

TEST_F(ClientData, RandomReadsAndWritesEqualAModel) {
  auto file = create("a");
  ASSERT_NE(file, nullptr);
  Bytes model;
  for (int i = 0; i < 150; ++i) {
    const std::uint64_t offset = random_.below(200'000);
    const std::size_t size = 1 + random_.below(random_.chance(1, 4) ? 150'000 : 9'000);
    if (random_.chance(1, 2)) {
      const Bytes data = bytes(size);
      if (model.size() < offset + size) model.resize(offset + size);
      std::copy(data.begin(), data.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
      const auto written = executor_.run(file->write(offset, data));
      ASSERT_OK(written);
      continue;
    }
    Bytes got(size, std::byte{0xEE});
    const auto n = executor_.run(file->read(offset, got));
    ASSERT_OK(n);
    const std::size_t expected = offset >= model.size() ? 0 : std::min<std::size_t>(size, model.size() - offset);
    ASSERT_EQ(*n, expected) << i;
    const ByteView wanted = ByteView(model).subspan(std::min<std::size_t>(offset, model.size()), expected);
    ASSERT_BYTES(ByteView(got).first(expected), wanted) << i;
  }
  const auto attributes = executor_.run(file->stat());
  ASSERT_OK(attributes);
  EXPECT_EQ(attributes->size, model.size());
  EXPECT_OK(executor_.run(file->sync()));
  EXPECT_OK(executor_.run(file->close()));
  ASSERT_NE(meta_->closed_with, std::nullopt);
  EXPECT_EQ(meta_->closed_with->size, model.size());
}

TEST_F(ClientData, AnUnwrittenNewFileHasAKnownSizeAtItsClose) {
  auto file = create("empty");
  ASSERT_NE(file, nullptr);
  ASSERT_OK(executor_.run(file->close()));
  ASSERT_NE(meta_->closed_with, std::nullopt);  // otherwise the meta server would ask every io server
  EXPECT_EQ(meta_->closed_with->size, 0U);
}

TEST_F(ClientData, AHoleReadsAsZerosAndTheEndIsTheFilesNotTheDatafiles) {
  auto file = create("sparse");
  ASSERT_NE(file, nullptr);
  const Bytes data = bytes(10);
  ASSERT_OK(executor_.run(file->write(5 * kStrip, data)));
  Bytes got(7 * kStrip, std::byte{0xEE});
  const auto n = executor_.run(file->read(0, got));
  ASSERT_OK(n);
  ASSERT_EQ(*n, 5 * kStrip + 10);
  for (std::size_t i = 0; i < 5 * kStrip; ++i) ASSERT_EQ(got[i], std::byte{0}) << i;
  EXPECT_BYTES(ByteView(got).subspan(5 * kStrip, data.size()), data);
  EXPECT_OK(executor_.run(file->close()));
}

TEST_F(ClientData, AShortReadAsksOnlyTheServersThatItHasNotRead) {
  auto file = create("short");
  ASSERT_NE(file, nullptr);
  ASSERT_OK(executor_.run(file->write(0, bytes(10))));
  Bytes everywhere(io_.size() * kStrip);
  ASSERT_OK(executor_.run(file->read(0, everywhere)));
  EXPECT_EQ(requests_of("datafile_stat"), 0U);
  Bytes one_server(kStrip);
  ASSERT_OK(executor_.run(file->read(0, one_server)));
  EXPECT_EQ(requests_of("datafile_stat"), io_.size() - 1);
  EXPECT_OK(executor_.run(file->close()));
}

TEST_F(ClientData, AStridedReadIsOneRequestToEachServer) {
  auto file = create("strided");
  ASSERT_NE(file, nullptr);
  const Bytes data = bytes(64 * 1024);
  ASSERT_OK(executor_.run(file->write(0, data)));
  const std::vector<datatype::Level> levels{{100, 600}};
  const auto what = datatype::Description::strided(50, 100, levels);
  ASSERT_OK(what);
  const std::uint64_t before = requests_of("read");
  Bytes got(100 * 100);
  const std::array<MutableByteView, 1> memory{got};
  const auto n = executor_.run(file->read_list(*what, memory));
  ASSERT_OK(n);
  EXPECT_EQ(*n, got.size());
  EXPECT_EQ(requests_of("read") - before, io_.size());
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_BYTES(ByteView(got).subspan(i * 100, 100), ByteView(data).subspan(50 + i * 600, 100)) << i;
  }
  EXPECT_OK(executor_.run(file->close()));
}

class ClientDataOfTwoSlotsEach : public ClientData {
 protected:
  ClientDataOfTwoSlotsEach() : ClientData(2) {}
};

TEST_F(ClientDataOfTwoSlotsEach, TheSlotsOfAServerShareOneRequest) {
  auto file = create("shared");
  ASSERT_NE(file, nullptr);
  const Bytes data = bytes(64 * 1024);
  ASSERT_OK(executor_.run(file->write(0, data)));
  Bytes got(data.size());
  const auto n = executor_.run(file->read(0, got));
  ASSERT_OK(n);
  EXPECT_EQ(got, data);
  for (const char* op : {"write", "read"}) EXPECT_EQ(requests_of(op), io_.size()) << op;
  EXPECT_OK(executor_.run(file->close()));
}

TEST_F(ClientData, AnExpiredCapabilityIsRenewedUnseen) {
  meta_->expired_next = true;
  auto file = create("late");
  ASSERT_NE(file, nullptr);
  const auto written = executor_.run(file->write(0, bytes(100)));
  EXPECT_OK(written);
  EXPECT_OK(executor_.run(file->close()));
}

TEST_F(ClientData, AfterALostConnectionTheWriteIsSentAgain) {
  auto file = create("again");
  ASSERT_NE(file, nullptr);
  const Bytes data = bytes(100'000);
  ASSERT_OK(executor_.run(file->write(0, data)));
  for (auto& host : io_) {
    for (const auto& peer : host->server->peers()) host->network->disconnect(peer->address);
  }
  const Bytes more = bytes(100'000);
  const auto written = executor_.run(file->write(50'000, more));
  ASSERT_OK(written);
  Bytes got(100'000);
  ASSERT_OK(executor_.run(file->read(50'000, got)));
  EXPECT_EQ(got, more);
  EXPECT_OK(executor_.run(file->close()));
}

TEST_F(ClientData, ADeadServerIsNamedAfterTheDeadline) {
  auto file = create("dead");
  ASSERT_NE(file, nullptr);
  options_.deadline = std::chrono::milliseconds(300);
  const auto opened = executor_.run(client_->open(path_from_root("nowhere"), wire::kOpenRead));
  EXPECT_ERRC(opened, Errc::kNotFound);
  Options other = options_;
  other.map.servers[1].urls = {"tcp://127.0.0.1:1"};
  Client second(other, *context_, random_);
  auto again = executor_.run(second.open(path_from_root("dead"), wire::kOpenRead | wire::kOpenWrite));
  ASSERT_OK(again);
  const auto written = executor_.run((*again)->write(0, bytes(10)));
  EXPECT_ERRC(written, Errc::kUnreachable);
  EXPECT_NE(written.error().message().find("server 2 (tcp://127.0.0.1:1)"), std::string::npos)
      << written.error().message();
  EXPECT_OK(executor_.run((*again)->close()));
  EXPECT_OK(executor_.run(file->close()));
  executor_.run(second.stop());
}

}  // namespace
}  // namespace spate::client::testing
