// SPDX-License-Identifier: Apache-2.0
#include "tests/posix/random_calls.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/random.h"

namespace spate::posix_test {
namespace {

constexpr int kDescriptors = 6;
constexpr std::uint64_t kFarthest = 20'000;  // bytes: several strips of the simulated cluster's 4 KiB

class Actor {
 public:
  Actor(std::uint64_t seed, Pair& pair, Frontend* observer)
      : random_(seed), pair_(pair), observer_(observer), seed_(seed) {}

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      one_step(step);
      if (step % 100 == 99) compare("step " + std::to_string(step));
    }
    compare("the end");
  }

 private:
  void compare(const std::string& when) {
    const std::string after = "seed " + std::to_string(seed_) + " after " + when;
    pair_.same_tree(after);
    if (observer_ != nullptr) pair_.same_tree(*observer_, "as the observer sees it, " + after);
  }

  std::string path() {
    static const char* const kNames[] = {"a", "b", "c", "d"};
    std::string path;
    for (std::uint64_t depth = random_.below(3); depth < 3; ++depth)
      path += std::string("/") + kNames[random_.below(4)];
    return path;
  }
  int fd() { return static_cast<int>(random_.below(kDescriptors)); }
  std::int64_t place() { return static_cast<std::int64_t>(random_.below(kFarthest)); }
  std::string data() { return std::string(random_.below(9000), static_cast<char>('a' + random_.below(26))); }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + random_.below(values.size()));
  }

  template <typename Call>
  void same(int step, const std::string& what, Call call) {
    pair_.same("seed " + std::to_string(seed_) + " step " + std::to_string(step) + ": " + what, call);
  }

  void one_step(int step) {
    const std::uint64_t choice = random_.below(100);
    if (choice < 30) {
      names(step);
    } else if (choice < 50) {
      opens(step);
    } else {
      files(step);
    }
  }

  void names(int step) {
    const std::string p = path();
    const std::string q = path();
    const unsigned flags =
        pick({0U, 0U, 0U, static_cast<unsigned>(RENAME_NOREPLACE), static_cast<unsigned>(RENAME_EXCHANGE)});
    const unsigned mode = pick({0644U, 0600U, 0755U, 0777U});
    switch (random_.below(13)) {
      case 0:
      case 1: return same(step, "mkdir " + p, [&](Frontend& f) { return f.mkdir(p, mode); });
      case 2: return same(step, "rmdir " + p, [&](Frontend& f) { return f.rmdir(p); });
      case 3: return same(step, "unlink " + p, [&](Frontend& f) { return f.unlink(p); });
      case 4:
        return same(step, "symlink " + q + " " + p,
                    [&](Frontend& f) { return f.symlink(flags == 0 ? f.root() + q : "." + q, p); });
      case 5: return same(step, "link " + p + " " + q, [&](Frontend& f) { return f.link(p, q, flags == 0); });
      case 6:
      case 7: return same(step, "rename " + p + " " + q, [&](Frontend& f) { return f.rename(p, q, flags); });
      case 8: return same(step, "stat " + p, [&](Frontend& f) { return f.stat(p, flags == 0); });
      case 9: return same(step, "chmod " + p, [&](Frontend& f) { return f.chmod(p, mode); });
      case 10: {
        const std::int64_t size = place();
        return same(step, "truncate " + p, [&](Frontend& f) { return f.truncate(p, size); });
      }
      case 11: return same(step, "utimens " + p, [&](Frontend& f) { return f.utimens(p, step, step); });
      default:
        return same(step, "setxattr " + p,
                    [&](Frontend& f) { return f.setxattr(p, "user.x", q, flags == 0 ? XATTR_CREATE : 0); });
    }
  }

  void opens(int step) {
    if (random_.below(3) == 0) {
      const int n = fd();
      return same(step, "close " + std::to_string(n), [&](Frontend& f) { return f.close(n); });
    }
    const std::string p = path();
    const int access = pick({O_RDONLY, O_WRONLY, O_RDWR, O_RDWR});
    const int flags = access | pick({0, O_CREAT, O_CREAT, O_CREAT | O_EXCL, O_CREAT | O_TRUNC, O_TRUNC, O_APPEND,
                                     O_CREAT | O_APPEND, O_NOFOLLOW});
    same(step, "open " + p + " flags " + std::to_string(flags), [&](Frontend& f) {
      Outcome opened = f.open(p, flags, 0644);
      if (opened.number >= kDescriptors) {
        f.close(static_cast<int>(opened.number));
        opened.text = "one too many";
      }
      return opened;
    });
  }

  void files(int step) {
    const int n = fd();
    const std::string which = " " + std::to_string(n);
    const std::int64_t at = place();
    const auto size = static_cast<std::size_t>(random_.below(9000));
    const std::string bytes = data();
    switch (random_.below(10)) {
      case 0: return same(step, "write" + which, [&](Frontend& f) { return f.write(n, bytes); });
      case 1:
      case 2: return same(step, "pwrite" + which, [&](Frontend& f) { return f.pwrite(n, bytes, at); });
      case 3: return same(step, "read" + which, [&](Frontend& f) { return f.read(n, size); });
      case 4:
      case 5: return same(step, "pread" + which, [&](Frontend& f) { return f.pread(n, size, at); });
      case 6: {
        const int whence = pick({SEEK_SET, SEEK_CUR, SEEK_END});
        return same(step, "seek" + which,
                    [&](Frontend& f) { return is_directory(f, n) ? Outcome() : f.seek(n, at / 4 - 500, whence); });
      }
      case 7: return same(step, "ftruncate" + which, [&](Frontend& f) { return f.ftruncate(n, at); });
      case 8: {
        const int mode =
            pick({0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE});
        return same(step, "fallocate" + which,
                    [&](Frontend& f) { return is_directory(f, n) ? Outcome() : f.fallocate(n, mode, at, 3000); });
      }
      default: return same(step, "fstat" + which, [&](Frontend& f) { return f.fstat(n); });
    }
  }
  /// Each file system decides for itself to which offsets one may seek in a directory.
  static bool is_directory(Frontend& frontend, int n) { return frontend.fstat(n).text.starts_with("mode 4"); }

  SeededRandom random_;
  Pair& pair_;
  Frontend* const observer_;
  const std::uint64_t seed_;
};

}  // namespace

void make_random_calls(std::uint64_t seed, int calls, Pair& pair, Frontend* observer) {
  Actor(seed, pair, observer).run(calls);
}

}  // namespace spate::posix_test
