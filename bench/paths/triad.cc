// SPDX-License-Identifier: Apache-2.0
// triad SECONDS MIB: repeats STREAM's triad, a = b + k * c, over three arrays of MIB each. Prints JSON: the median
// seconds of a pass, and the number of passes. The program depends on memory bandwidth only, so it shows what a
// neighbour takes from it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Not inlined, so that each pass really reads and writes memory.
[[gnu::noinline]] void pass(std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& c,
                            double k) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = b[i] + k * c[i];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const double seconds = std::strtod(argv[1], nullptr);
  const std::size_t count = std::strtoull(argv[2], nullptr, 10) * 1024 * 1024 / sizeof(double);
  if (!(seconds > 0) || count == 0) return 2;
  std::vector<double> a(count, 0.0);
  const std::vector<double> b(count, 1.0);
  const std::vector<double> c(count, 2.0);
  std::vector<double> took;
  const double end = now_seconds() + seconds;
  for (double at = now_seconds(); at < end;) {
    pass(a, b, c, static_cast<double>(took.size()));
    const double after = now_seconds();
    took.push_back(after - at);
    at = after;
  }
  const double last = static_cast<double>(took.size() - 1);
  if (a[count / 2] != 1.0 + 2.0 * last) return 1;
  std::sort(took.begin(), took.end());
  std::printf("{\"seconds\": %.9f, \"passes\": %zu}\n", took[took.size() / 2], took.size());
  return 0;
}
