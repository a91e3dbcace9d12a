// SPDX-License-Identifier: Apache-2.0
#include "rpc/heavy_hitters.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/expect.h"
#include "base/random.h"

namespace spate::rpc {
namespace {

using Hitters = HeavyHitters<std::uint64_t, wire::FileLoad>;

const MonoTime kHittersBegin{std::chrono::seconds(1000)};

void note_key(Hitters& hitters, std::uint64_t key, std::uint64_t bytes, MonoTime now) {
  hitters.note(key, {wire::LoadKind::kRead, false, Duration(1), bytes}, now, [&] {
    wire::FileLoad about;
    about.file = Handle(key);
    return about;
  });
}

std::set<std::uint64_t> kept_keys(const Hitters& hitters) {
  std::set<std::uint64_t> all;
  for (const wire::FileLoad& one : hitters.list()) all.insert(one.file.value);
  return all;
}

/// The same algorithm, which looks at every key and does not halve.
class LinearModel {
 public:
  explicit LinearModel(std::size_t most) : most_(most) {}
  void note(std::uint64_t key, std::uint64_t bytes) {
    if (!weights_.contains(key)) {
      double least = 0;
      if (weights_.size() >= most_) {
        const auto lighter = [](const auto& a, const auto& b) { return a.second < b.second; };
        const auto found = std::min_element(weights_.begin(), weights_.end(), lighter);
        least = found->second;
        weights_.erase(found);
      }
      weights_.emplace(key, least);
    }
    weights_[key] += 1 + static_cast<double>(bytes) / Hitters::kBytesOfARequest;
  }
  std::set<std::uint64_t> keys() const {
    std::set<std::uint64_t> all;
    for (const auto& [key, weight] : weights_) all.insert(key);
    return all;
  }

 private:
  const std::size_t most_;
  std::map<std::uint64_t, double> weights_;
};

TEST(HeavyHitters, ReplacesTheKeyWithTheLeastWeight) {
  constexpr std::size_t kMost = 16;
  Hitters hitters(kHittersBegin, kMost);
  LinearModel model(kMost);
  SeededRandom random(5);
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t key = random.chance(1, 2) ? random.below(20) : random.below(1000);
    const std::uint64_t bytes = random.below(1U << 20U);  // so that no two keys have the same weight
    note_key(hitters, key, bytes, kHittersBegin);
    model.note(key, bytes);
    ASSERT_EQ(kept_keys(hitters), model.keys()) << "after " << i;
  }
}

TEST(HeavyHitters, AKeyThatWasBusyBeforeWeighsLessThanOneThatIsBusy) {
  Hitters hitters(kHittersBegin, 2);
  for (int i = 0; i < 100; ++i) note_key(hitters, 1, 0, kHittersBegin);
  const MonoTime later = kHittersBegin + 4 * Hitters::kHalfLife;  // 100 requests weigh less than 7 now
  for (int i = 0; i < 10; ++i) note_key(hitters, 2, 0, later);
  note_key(hitters, 3, 0, later);
  EXPECT_EQ(kept_keys(hitters), (std::set<std::uint64_t>{2, 3}));
}

/// A weight that counts how often any two are compared.
struct CountedWeight {
  double value = 0;
  static inline std::uint64_t compared = 0;

  explicit CountedWeight(double number = 0) : value(number) {}
  CountedWeight& operator+=(double more) {
    value += more;
    return *this;
  }
  CountedWeight& operator*=(double part) {
    value *= part;
    return *this;
  }
  bool operator>(const CountedWeight& other) const {
    ++compared;
    return value > other.value;
  }
};

/// A copy of a tree makes each file a new key. A key can only be found to be the lightest by comparisons.
TEST(HeavyHitters, ANewKeyDoesNotLookAtAllOthers) {
  constexpr std::uint64_t kMost = 4096;  // 12 levels of a heap
  constexpr std::uint64_t kNew = 2 * kMost;
  HeavyHitters<std::uint64_t, wire::FileLoad, CountedWeight> hitters(kHittersBegin, kMost);
  const auto note = [&](std::uint64_t key) {
    hitters.note(key, {wire::LoadKind::kRead, false, Duration(1), 0}, kHittersBegin, [] { return wire::FileLoad(); });
  };
  for (std::uint64_t key = 0; key < kMost; ++key) note(key);
  CountedWeight::compared = 0;
  for (std::uint64_t key = kMost; key < kMost + kNew; ++key) note(key);
  EXPECT_EQ(hitters.dropped(), kNew);
  EXPECT_LT(CountedWeight::compared / kNew, 128U) << "comparisons for a new key among " << kMost;
}

}  // namespace
}  // namespace spate::rpc
