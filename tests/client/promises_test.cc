// SPDX-License-Identifier: Apache-2.0
// The size that a client reports at a close, the writes that fsync covers, and that no change is made twice.
#include <optional>

#include "base/expect.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

class ClientPromises : public ClientData {
 protected:
  std::unique_ptr<File> open(const std::string& path, std::uint8_t flags) {
    auto file = executor_.run(client_->open(path_from_root(path), flags));
    EXPECT_OK(file);
    return file ? *std::move(file) : nullptr;
  }
  /// How many requests of this type the io servers have had.
  std::uint64_t requests(const std::string& op) {
    std::uint64_t sum = 0;
    for (auto& host : io_) {
      const auto snapshot = host->metrics.snapshot();
      const auto* sample = snapshot.find("spate_rpc_request_ns", {{"op", op}});
      sum += sample == nullptr ? 0 : sample->histogram.count();
    }
    return sum;
  }
  /// Starts another meta server process at the same address.
  void restart_meta() {
    executor_.run(meta_host_.server->stop());
    rpc::ServerOptions options = meta_host_.server->options();
    options.incarnation = Incarnation(options.incarnation.value + 1);
    meta_host_.server = std::make_unique<rpc::Server>(options, *meta_host_.context, random_, meta_host_.metrics);
    meta_host_.server->add(*meta_);
    meta_host_.server->start();
  }
  /// Restarts an io server with its machine, so that unsynced writes may be lost.
  void restart_io(std::size_t index) {
    IoHost& host = *io_[index];
    executor_.run(host.server->stop());
    rpc::ServerOptions options = host.server->options();
    options.incarnation = Incarnation(options.incarnation.value + 1000);
    host.server = std::make_unique<rpc::Server>(options, *host.context, random_, host.metrics);
    host.server->add(*host.service);
    host.server->start();
  }
  void drop_meta_connections(const rpc::Call& call) { meta_host_.network->disconnect(call.address); }
};

TEST_F(ClientPromises, AfterAFailedWriteTheSizeIsUnknown) {
  auto file = create("f");
  ASSERT_OK(executor_.run(file->write(0, bytes(100))));
  file->force_path(static_cast<wire::DataPath>(99));  // a path that no server knows
  EXPECT_ERRC(executor_.run(file->write(100, bytes(100))), Errc::kInvalidArgument);
  file->force_path(wire::DataPath::kAutomatic);
  ASSERT_OK(executor_.run(file->write(0, bytes(3 * kStrip))));  // writes all slots, but not known: the failed write
  ASSERT_OK(executor_.run(file->close()));
  EXPECT_EQ(meta_->closed_with, std::nullopt);
}

TEST_F(ClientPromises, AfterAFailedTruncationTheSizeIsUnknown) {
  auto file = create("f");
  ASSERT_OK(executor_.run(file->write(0, bytes(100))));
  meta_->truncate_outcome = Errc::kNoSpace;
  EXPECT_ERRC(executor_.run(file->truncate(10)), Errc::kNoSpace);
  ASSERT_OK(executor_.run(file->close()));
  EXPECT_EQ(meta_->closed_with, std::nullopt);
}

TEST_F(ClientPromises, AClientWhoseSessionRanOutReportsNoSizeAtItsClose) {
  auto file = create("f");
  ASSERT_OK(executor_.run(file->write(0, bytes(3 * kStrip))));
  meta_->epoch = 2;
  for (auto& host : io_) {
    rpc::Call call;
    call.peer = std::make_shared<rpc::Peer>();
    wire::FenceRequest fence;
    fence.client = ClientId(7);
    fence.lowest_epoch = 2;
    Bytes body;
    wire::encode_body(fence, body);
    ASSERT_OK(executor_.run(host->service->operations().at(wire::Op::kFence).handler(call, body)));
  }
  ASSERT_OK(executor_.run(file->write(0, bytes(10))));
  ASSERT_OK(executor_.run(file->close()));
  EXPECT_EQ(meta_->closed_with, std::nullopt);
}

// Even an idle client must learn this, since its locks and opens are lost.
TEST_F(ClientPromises, AnIdleClientLearnsThatItsSessionHasExpired) {
  meta_->lease_ms = 300;
  ASSERT_OK(executor_.run(client_->connect()));
  Session& session = client_->session();
  ASSERT_EQ(session.identity().epoch, 1U);
  meta_->epoch = 2;
  const auto wait = [](job::Executor& executor) -> job::Task<Result<void>> {
    auto slept = co_await executor.sleep(std::chrono::milliseconds(10));
    co_return slept;
  };
  for (int i = 0; i < 1000 && session.identity().epoch != 2; ++i) ASSERT_OK(executor_.run(wait(executor_)));
  EXPECT_EQ(session.identity().epoch, 2U);
}

TEST_F(ClientPromises, FsyncCoversTruncations) {
  {
    auto file = create("f");
    ASSERT_OK(executor_.run(file->write(0, bytes(3 * kStrip))));
    ASSERT_OK(executor_.run(file->sync()));
    EXPECT_EQ(requests("datafile_flush"), 3U);
    ASSERT_OK(executor_.run(file->sync()));
    EXPECT_EQ(requests("datafile_flush"), 3U);  // nothing new to sync
    ASSERT_OK(executor_.run(file->truncate(10)));
    ASSERT_OK(executor_.run(file->sync()));
    EXPECT_EQ(requests("datafile_flush"), 6U);
    ASSERT_OK(executor_.run(file->close()));
  }
  auto file = open("f", wire::kOpenWrite | wire::kOpenTruncate);
  ASSERT_OK(executor_.run(file->write(0, bytes(1))));
  ASSERT_OK(executor_.run(file->sync()));
  EXPECT_EQ(requests("datafile_flush"), 9U);
  ASSERT_OK(executor_.run(file->close()));
}

TEST_F(ClientPromises, FsyncOfAFileThatTheMetaServerLostIsAnError) {
  auto file = create("f");
  ASSERT_OK(executor_.run(file->write(0, bytes(100))));
  restart_meta();
  EXPECT_OK(executor_.run(file->sync()));  // a restart alone loses no write
  restart_meta();
  meta_->loses_files = true;
  EXPECT_ERRC(executor_.run(file->sync()), Errc::kLostWrite);
  EXPECT_ERRC(executor_.run(file->sync()), Errc::kLostWrite);
}

TEST_F(ClientPromises, FsyncAfterAnIoServerRestartedIsAnErrorOnce) {
  auto file = create("f");
  ASSERT_OK(executor_.run(file->write(0, bytes(3 * kStrip))));
  restart_io(1);
  EXPECT_ERRC(executor_.run(file->sync()), Errc::kLostWrite);
  EXPECT_OK(executor_.run(file->sync()));
  EXPECT_OK(executor_.run(file->close()));
}

// The states that the writes were answered with count the lost writes.
TEST_F(ClientPromises, AfterALostWriteTheSizeIsUnknown) {
  auto synced = create("synced");
  auto closed = create("closed");
  auto again = create("again");
  for (File* file : {synced.get(), closed.get(), again.get()})
    ASSERT_OK(executor_.run(file->write(0, bytes(3 * kStrip))));
  restart_io(1);
  EXPECT_ERRC(executor_.run(synced->sync()), Errc::kLostWrite);
  ASSERT_OK(executor_.run(synced->close()));
  EXPECT_EQ(meta_->closed_with, std::nullopt);
  EXPECT_ERRC(executor_.run(closed->close()), Errc::kLostWrite);
  EXPECT_EQ(meta_->closed_with, std::nullopt);
  ASSERT_OK(executor_.run(again->write(0, bytes(3 * kStrip))));
  EXPECT_ERRC(executor_.run(again->close()), Errc::kLostWrite);
  EXPECT_EQ(meta_->closed_with, std::nullopt);
}

// A close asks no server. This client has learnt of the restart by the write to another file.
TEST_F(ClientPromises, CloseAfterAKnownRestartIsAnError) {
  auto lost = create("lost");
  auto synced = create("synced");
  auto other = create("other");
  ASSERT_OK(executor_.run(lost->write(0, bytes(3 * kStrip))));
  ASSERT_OK(executor_.run(synced->write(0, bytes(3 * kStrip))));
  ASSERT_OK(executor_.run(synced->sync()));
  restart_io(1);
  ASSERT_OK(executor_.run(other->write(0, bytes(3 * kStrip))));
  EXPECT_ERRC(executor_.run(lost->close()), Errc::kLostWrite);
  EXPECT_OK(executor_.run(synced->close()));
  EXPECT_OK(executor_.run(other->close()));
}

// Later syncs do not report the loss, so this close must, although the session in which the file was open has ended.
TEST_F(ClientPromises, ACloseThatFailsForAnotherReasonStillReportsALostWrite) {
  auto lost = create("lost");
  auto other = create("other");
  ASSERT_OK(executor_.run(lost->write(0, bytes(3 * kStrip))));
  restart_io(1);
  ASSERT_OK(executor_.run(other->write(0, bytes(3 * kStrip))));
  meta_->close_outcome = Errc::kBadDescriptor;
  EXPECT_ERRC(executor_.run(lost->close()), Errc::kLostWrite);
}

// The second fsync must not succeed because the first one already handles what is to be synced, or to be reported.
TEST_F(ClientPromises, OverlappingFsyncsAllReportALostWrite) {
  auto file = create("f");
  ASSERT_OK(executor_.run(file->write(0, bytes(3 * kStrip))));
  restart_io(1);
  Errc second = Errc::kUnknown;
  const auto sync_too = [](File& it, Errc& code) -> job::Task<void> {
    auto synced = co_await it.sync();
    code = synced.code();
  };
  const auto both = [&sync_too](job::Executor& executor, File& it, Errc& code) -> job::Task<Result<void>> {
    job::Gate gate(executor);
    job::spawn(gate, sync_too(it, code));
    auto first = co_await it.sync();
    co_await gate.close();
    co_return first;
  };
  EXPECT_ERRC(executor_.run(both(file->executor(), *file, second)), Errc::kLostWrite);
  EXPECT_EQ(second, Errc::kLostWrite);
  EXPECT_OK(executor_.run(file->sync()));
  EXPECT_OK(executor_.run(file->close()));
}

// The answer is lost with the connection, and the session ends before the resend. So nobody can tell whether the change
// was made.
TEST_F(ClientPromises, AChangeIsNotRepeatedInAnotherSession) {
  ASSERT_OK(executor_.run(client_->connect()));
  meta_->before_answer = [this](const rpc::Call& call) {
    meta_->forgets_sessions = true;
    drop_meta_connections(call);
  };
  const auto made = executor_.run(client_->mkdir(path_from_root("d"), {}));
  EXPECT_ERRC(made, Errc::kForgottenRequest);
  EXPECT_EQ(meta_->mkdirs, 1);
  meta_->before_answer = {};
  EXPECT_OK(executor_.run(client_->mkdir(path_from_root("e"), {})));  // in a new session
}

TEST_F(ClientPromises, AChangeThatWasRefusedForAnOldSessionIsRepeatedInANewOne) {
  ASSERT_OK(executor_.run(client_->connect()));
  meta_->forgets_sessions = true;
  client_->session().meta().repeat_handshake();
  EXPECT_OK(executor_.run(client_->mkdir(path_from_root("d"), {})));
  EXPECT_EQ(meta_->mkdirs, 1);
}

}  // namespace
}  // namespace spate::client::testing
