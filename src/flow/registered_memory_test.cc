// SPDX-License-Identifier: Apache-2.0
#include "flow/registered_memory.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/expect.h"
#include "bmi/sim/fabric.h"

namespace spate::flow {
namespace {

/// A target that only knows which memory was registered with it.
class KnowingTarget final : public trove::Bytestreams {
 public:
  Result<void> register_memory(MutableByteView memory) override {
    if (refuses) return Error(Errc::kNoMemory, "register memory");
    known.insert(memory.data());
    return {};
  }
  void forget_memory(MutableByteView memory) override { known.erase(memory.data()); }
  bool post(const trove::BytestreamRequest& /*request*/, void* /*user*/,
            trove::BytestreamCompletion& /*done*/) override {
    return true;
  }
  std::size_t test(std::span<trove::BytestreamCompletion> /*out*/) override { return 0; }
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return true; }
  Result<std::vector<DatafileId>> list(DatafileId /*after*/, std::size_t /*max*/) override {
    return Errc::kNotSupported;
  }
  Result<trove::SpaceInfo> space() override { return Errc::kNotSupported; }
  std::string describe() const override { return "knowing"; }

  bool refuses = false;
  std::set<std::byte*> known;
};

class RegisteredMemoryTest : public testing::Test {
 protected:
  RegisteredMemoryTest() {
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::sim::attach(fabric_, 1));
    network_ = bmi::make_network(std::move(modules));
    memory_.emplace(*network_, std::vector<trove::Bytestreams*>{&first_, &second_});
  }

  ManualClock clock_;
  SeededRandom random_{1};
  bmi::sim::Fabric fabric_{clock_, random_};
  std::unique_ptr<bmi::Network> network_;
  KnowingTarget first_;
  KnowingTarget second_;
  std::optional<RegisteredMemory> memory_;
};

TEST_F(RegisteredMemoryTest, SlabsAreMadeOnDemandAndRegisteredWithEveryTarget) {
  EXPECT_THAT(first_.known, testing::IsEmpty());
  std::vector<MutableByteView> buffers;
  for (std::size_t i = 0; i < RegisteredMemory::kBuffersPerSlab; ++i)
    buffers.push_back(memory_->allocate(kPeerBufferBytes));
  EXPECT_EQ(first_.known.size(), 1U);
  const std::byte* const slab = *first_.known.begin();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(buffers[i].data(), slab + i * kPeerBufferBytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers[i].data()) % 4096, 0U);
  }
  buffers.push_back(memory_->allocate(kPeerBufferBytes));
  EXPECT_EQ(first_.known.size(), 2U);
  EXPECT_EQ(second_.known, first_.known);
  memory_->free(buffers.back());
  EXPECT_EQ(memory_->allocate(kPeerBufferBytes).data(), buffers.back().data());
  EXPECT_EQ(first_.known.size(), 2U);
  for (const MutableByteView buffer : buffers) memory_->free(buffer);
  memory_.reset();
  EXPECT_THAT(first_.known, testing::IsEmpty());
  EXPECT_THAT(second_.known, testing::IsEmpty());
}

TEST_F(RegisteredMemoryTest, ATargetThatRefusesToRegisterStillUsesTheMemory) {
  first_.refuses = true;
  const MutableByteView buffer = memory_->allocate(kPeerBufferBytes);
  ASSERT_EQ(buffer.size(), kPeerBufferBytes);
  std::fill(buffer.begin(), buffer.end(), std::byte{1});
  EXPECT_THAT(first_.known, testing::IsEmpty());
  EXPECT_EQ(second_.known.size(), 1U);
  memory_->free(buffer);
}

}  // namespace
}  // namespace spate::flow
