// SPDX-License-Identifier: Apache-2.0
// Connections break in the middle of a read or write, at every possible point.
#include "base/expect.h"
#include "bmi/fault/fault_module.h"
#include "tests/client/client_fixture.h"

namespace spate::client::testing {
namespace {

class Broken : public ClientData {
 protected:
  Broken() {
    executor_.run(client_->stop());
    client_.reset();
    context_.reset();
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(std::make_unique<bmi::fault::FaultModule>(bmi::tcp::make_tcp_module(clock_), plan_));
    network_ = bmi::make_network(std::move(modules));
    context_ = std::make_unique<job::NetworkContext>(*network_, executor_);
    client_ = std::make_unique<Client>(options_, *context_, random_);
  }

  /// The connection is lost at the nth completion from now on.
  void break_at(std::uint64_t nth) {
    bmi::fault::Fault fault;
    fault.point = bmi::fault::Point::kCompletion;
    fault.nth = plan_->passed(fault.point) + nth;
    plan_->clear();
    plan_->add(fault);
  }

  std::shared_ptr<bmi::fault::Plan> plan_ = std::make_shared<bmi::fault::Plan>();
};

TEST_F(Broken, AReadWhoseDataIsCutOffAfterTheReplyIsRepeated) {
  auto file = create("a");
  ASSERT_NE(file, nullptr);
  const Bytes data = bytes(100'000);
  ASSERT_OK(executor_.run(file->write(0, data)));
  bool fired = true;
  std::uint64_t nth = 1;
  for (; fired && nth < 200; ++nth) {
    const std::uint64_t before = plan_->fired();
    break_at(nth);
    Bytes got(data.size());
    const auto n = executor_.run(file->read(0, got));
    ASSERT_OK(n) << "at completion " << nth;
    EXPECT_EQ(*n, data.size());
    EXPECT_EQ(got, data) << "at completion " << nth;
    fired = plan_->fired() > before;
  }
  EXPECT_GT(nth, 8U) << "three servers, each with a request, a reply and data";
  plan_->clear();
  EXPECT_OK(executor_.run(file->close()));
}

/// The servers can be reached, but every connection breaks. The error must be the timeout, not the last reset.
TEST_F(Broken, ARequestWhoseConnectionBreaksEachTimeTimesOut) {
  auto file = create("a");
  ASSERT_NE(file, nullptr);
  executor_.run(client_->stop());
  options_.deadline = std::chrono::milliseconds(200);
  client_ = std::make_unique<Client>(options_, *context_, random_);
  const std::uint64_t passed = plan_->passed(bmi::fault::Point::kCompletion);
  for (std::uint64_t nth = 1; nth <= 200; ++nth) {
    bmi::fault::Fault fault;
    fault.point = bmi::fault::Point::kCompletion;
    fault.nth = passed + nth;
    plan_->add(fault);
  }
  const auto opened = executor_.run(client_->open(path_from_root("a"), wire::kOpenRead));
  EXPECT_ERRC(opened, Errc::kTimeout);
  plan_->clear();
}

TEST_F(Broken, AWriteIsDoneWhereverTheConnectionBreaks) {
  auto file = create("a");
  ASSERT_NE(file, nullptr);
  bool fired = true;
  for (std::uint64_t nth = 1; fired && nth < 200; ++nth) {
    const std::uint64_t before = plan_->fired();
    break_at(nth);
    const Bytes data = bytes(100'000);
    const auto written = executor_.run(file->write(0, data));
    ASSERT_OK(written) << "at completion " << nth;
    fired = plan_->fired() > before;
    plan_->clear();
    Bytes got(data.size());
    ASSERT_OK(executor_.run(file->read(0, got)));
    EXPECT_EQ(got, data) << "at completion " << nth;
  }
  EXPECT_OK(executor_.run(file->close()));
}

}  // namespace
}  // namespace spate::client::testing
