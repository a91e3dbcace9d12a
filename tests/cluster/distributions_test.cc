// SPDX-License-Identifier: Apache-2.0
// Files with every registered distribution, through client, meta server and io servers.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "base/random.h"
#include "dist/registry.h"
#include "tests/cluster/calls.h"
#include "wire/xattr_messages.h"

namespace spate::cluster {
namespace {

using FilePtr = std::unique_ptr<client::File>;

constexpr std::uint64_t kMostBytes = 300'000;

std::vector<DistributionSpec> all_specs() {
  std::vector<DistributionSpec> specs;
  for (const DistributionType* type : distribution_types()) {
    for (const std::string& parameters : type->examples()) {
      const std::string text = std::string(type->name()) + (parameters.empty() ? "" : ":" + parameters);
      specs.push_back(parse_distribution(text).value());
    }
  }
  return specs;
}

class DistributionsTest : public ::testing::Test {
 protected:
  DistributionsTest() : world_(WorldOptions()), client_(world_.start_client()) {}

  template <typename T>
  T run(job::Task<T> task) {
    return call(world_, client_, std::move(task));
  }

  FilePtr create(const std::string& name, const DistributionSpec& spec) {
    client::NewObject object;
    object.layout.distribution = spec;
    auto made = run(client_.client().create(client::path_from_root(name), kReadWrite, object));
    EXPECT_OK(made) << describe(spec);
    return made ? *std::move(made) : nullptr;
  }
  /// Writes random bytes at random offsets, and sometimes truncates. Applies the same changes to `memory`.
  void change(client::File& file, Bytes& memory, Random& random) {
    if (random.chance(1, 6)) {
      const std::uint64_t size = random.below(kMostBytes);
      ASSERT_OK(run(file.truncate(size)));
      memory.resize(size);
      return;
    }
    const std::uint64_t offset = random.below(kMostBytes / 2);
    Bytes piece(1 + random.below(kMostBytes / 3));
    for (std::byte& byte : piece) byte = static_cast<std::byte>(random.below(256));
    ASSERT_OK(run(file.write(offset, piece)));
    memory.resize(std::max<std::size_t>(memory.size(), offset + piece.size()));
    std::copy(piece.begin(), piece.end(), memory.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  Bytes content(client::File& file) {
    Bytes memory(2 * kMostBytes);
    const auto got = run(file.read(0, memory));
    EXPECT_OK(got);
    memory.resize(got ? *got : 0);
    return memory;
  }

  World world_;
  ClientProcess& client_;
};

TEST_F(DistributionsTest, FilesHoldTheWrittenData) {
  SeededRandom random(1);
  for (const DistributionSpec& spec : all_specs()) {
    const FilePtr file = create(describe(spec).substr(0, 12) + std::to_string(random.next()), spec);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->layout().distribution, spec);
    Bytes memory;
    for (int i = 0; i < 12; ++i) change(*file, memory, random);
    EXPECT_EQ(content(*file) == memory, true) << describe(spec);
    const auto attributes = run(file->stat());
    ASSERT_OK(attributes);
    EXPECT_EQ(attributes->size, memory.size()) << describe(spec);
  }
}

TEST_F(DistributionsTest, ServersCopyFilesOfOneShape) {
  SeededRandom random(2);
  for (const DistributionSpec& spec : all_specs()) {
    const FilePtr from = create("from" + std::to_string(random.next()), spec);
    const FilePtr to = create("to" + std::to_string(random.next()), spec);
    ASSERT_NE(from, nullptr);
    ASSERT_NE(to, nullptr);
    Bytes memory(kMostBytes);
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random.below(256));
    ASSERT_OK(run(from->write(0, memory)));
    for (std::uint64_t done = 0; done < memory.size();) {
      const auto copied = run(to->copy_from(*from, {done, done, memory.size() - done}));
      ASSERT_OK(copied);
      ASSERT_GT(*copied, 0U);
      done += *copied;
    }
    EXPECT_EQ(content(*to) == memory, true) << describe(spec);
  }
}

TEST_F(DistributionsTest, ADirectoryGivesItsOwnToNewFiles) {
  const auto path = client::path_from_root("d");
  ASSERT_OK(run(client_.client().mkdir(path, wire::NewAttributes{})));
  wire::SetxattrRequest request;
  request.where = path;
  request.name = "user.spate.distribution";
  request.value = to_bytes(as_bytes("varstrip:8 KiB,4 KiB"));
  ASSERT_OK(run(client_.client().setxattr(request)));
  const auto made = run(client_.client().create(client::path_from_root("d/f"), kReadWrite, {}));
  ASSERT_OK(made);
  EXPECT_EQ(describe((*made)->layout().distribution), "varstrip:8 KiB,4 KiB");
  EXPECT_EQ((*made)->layout().slots.size(), 2U);
}

TEST_F(DistributionsTest, ADistributionThatNeedsMoreTargetsThanThereAreIsRefused) {
  client::NewObject object;
  object.layout.distribution = parse_distribution("twod_stripe:1000,1").value();
  const auto made = run(client_.client().create(client::path_from_root("f"), kReadWrite, object));
  ASSERT_ERRC(made, Errc::kInvalidArgument);
  EXPECT_THAT(made.error().context(), ::testing::HasSubstr("1000 groups need as many slots"));
}

TEST_F(DistributionsTest, AnUnknownDistributionIsRefused) {
  client::NewObject object;
  object.layout.distribution = DistributionSpec{255, Bytes(3)};
  const auto made = run(client_.client().create(client::path_from_root("f"), kReadWrite, object));
  ASSERT_ERRC(made, Errc::kNotSupported);
  EXPECT_THAT(made.error().context(), ::testing::HasSubstr("does not know distribution 255"));
}

}  // namespace
}  // namespace spate::cluster
