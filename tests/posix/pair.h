// SPDX-License-Identifier: Apache-2.0
// Pair: the kernel's file system and Spate's. A test makes the same calls on both.
#pragma once

#include "base/expect.h"
#include "tests/posix/frontend.h"

namespace spate::posix_test {

/// Describes everything below a directory: a line for each object, with its contents. In links' targets it calls the
/// path `root` ROOT.
std::string dump(Frontend& frontend, const std::string& directory, const std::string& root);
/// Removes everything below a directory.
void wipe(Frontend& frontend, const std::string& directory);

class Pair {
 public:
  /// Spate's is that of a simulated cluster.
  explicit Pair(std::uint64_t seed = 1)
      : kernel_(make_kernel_frontend()), spate_(make_spate_frontend(kernel_->root(), seed)) {}
  Pair(std::unique_ptr<Frontend> kernel, std::unique_ptr<Frontend> spate)
      : kernel_(std::move(kernel)), spate_(std::move(spate)) {}

  Frontend& kernel() { return *kernel_; }
  Frontend& spate() { return *spate_; }

  /// Makes the same call on both, and expects the same result, which it returns.
  template <typename Call>
  Outcome same(const std::string& what, Call call) {
    const Outcome expected = call(*kernel_);
    const Outcome seen = call(*spate_);
    EXPECT_EQ(describe(seen), describe(expected)) << what;
    return seen;
  }
  void same_tree(const std::string& after) { same_tree(*spate_, after); }
  /// The same by another front end of Spate's file system.
  void same_tree(Frontend& seen, const std::string& after) {
    EXPECT_EQ(dump(seen, "/", spate_->root()), dump(*kernel_, "/", kernel_->root())) << after;
  }

 private:
  std::unique_ptr<Frontend> kernel_;
  std::unique_ptr<Frontend> spate_;
};

}  // namespace spate::posix_test
