// SPDX-License-Identifier: Apache-2.0
// preload_threads FOLDER SEED ROUNDS: eight threads make all calls at once under `spate run`, on their own descriptors
// and on shared ones. A model predicts the result of each call. A wrong result is printed, and the exit code is 1.
// threads.sh runs this.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 8;
constexpr std::size_t kRecord = 32;

std::atomic<int> failures{0};

bool check(bool good, const std::string& what) {
  if (!good && failures.fetch_add(1) < 20)
    std::fprintf(stderr, "failed: %s (%s)\n", what.c_str(), std::strerror(errno));
  return good;
}

using Generator = std::mt19937;

/// A number below `end`.
std::size_t below(Generator& random, std::size_t end) {
  return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
}

/// Names and descriptors that only one thread uses. The results must be exactly those of the model.
class OwnFiles {
 public:
  OwnFiles(std::string folder, unsigned seed) : folder_(std::move(folder)), random_(seed) {
    check(::mkdir(folder_.c_str(), 0755) == 0, "mkdir " + folder_);
  }
  ~OwnFiles() {
    while (!descriptors_.empty()) close_one();
    for (const auto& [name, file] : names_) check(::unlink(path(name).c_str()) == 0, "unlink at the end");
    check(::rmdir(folder_.c_str()) == 0, "rmdir " + folder_ + ": something is left");
  }
  OwnFiles(const OwnFiles&) = delete;
  OwnFiles& operator=(const OwnFiles&) = delete;

  void step() {
    switch (below(random_, 10)) {
      case 0: return open_one();
      case 1: return write_one();
      case 2: return read_one();
      case 3: return read_at();
      case 4: return dup_one();
      case 5: return close_one();
      case 6: return stat_one();
      case 7: return rename_one();
      case 8: return seek_one();
      default: return unlink_or_cut();
    }
  }

 private:
  struct File {
    std::string data;
  };
  /// The state that a descriptor shares with its copies by dup.
  struct Description {
    std::shared_ptr<File> file;
    std::size_t position = 0;
    bool appends = false;
  };

  std::string path(std::size_t name) const { return folder_ + "/" + std::to_string(name); }
  std::size_t any_name() { return below(random_, 6); }
  std::pair<const int, std::shared_ptr<Description>>* any_descriptor() {
    if (descriptors_.empty()) return nullptr;
    return &*std::next(descriptors_.begin(), static_cast<std::ptrdiff_t>(below(random_, descriptors_.size())));
  }

  void open_one() {
    const std::size_t name = any_name();
    if (descriptors_.size() >= 12) return;
    const bool makes = below(random_, 3) > 0;
    const bool appends = below(random_, 3) == 0;
    const int fd = ::open(path(name).c_str(), O_RDWR | (makes ? O_CREAT : 0) | (appends ? O_APPEND : 0), 0644);
    auto file = names_.find(name);
    if (file == names_.end() && !makes) {
      check(fd < 0 && errno == ENOENT, "open of what is not there");
      return;
    }
    if (!check(fd >= 0, "open")) return;
    if (file == names_.end()) file = names_.emplace(name, std::make_shared<File>()).first;
    check(!descriptors_.contains(fd), "a number was given twice");
    descriptors_[fd] = std::make_shared<Description>(Description{file->second, 0, appends});
  }

  void write_one() {
    auto* const one = any_descriptor();
    if (one == nullptr) return;
    Description& open = *one->second;
    const std::string data(1 + below(random_, 3000), static_cast<char>('a' + below(random_, 26)));
    if (!check(::write(one->first, data.data(), data.size()) == static_cast<ssize_t>(data.size()), "write")) return;
    std::string& all = open.file->data;
    if (open.appends) open.position = all.size();
    if (all.size() < open.position + data.size()) all.resize(open.position + data.size());
    all.replace(open.position, data.size(), data);
    open.position += data.size();
  }

  void check_read(ssize_t got, const char* data, const std::string& all, std::size_t from, std::size_t size) {
    const std::size_t there = from < all.size() ? std::min(size, all.size() - from) : 0;
    check(got == static_cast<ssize_t>(there) && (there == 0 || all.compare(from, there, data, there) == 0),
          "a read of own data");
  }
  void read_one() {
    auto* const one = any_descriptor();
    if (one == nullptr) return;
    std::array<char, 2000> data{};
    const ssize_t got = ::read(one->first, data.data(), data.size());
    check_read(got, data.data(), one->second->file->data, one->second->position, data.size());
    if (got > 0) one->second->position += static_cast<std::size_t>(got);
  }
  void read_at() {
    auto* const one = any_descriptor();
    if (one == nullptr) return;
    std::array<char, 2000> data{};
    const std::size_t from = below(random_, one->second->file->data.size() + 100);
    const ssize_t got = ::pread(one->first, data.data(), data.size(), static_cast<off_t>(from));
    check_read(got, data.data(), one->second->file->data, from, data.size());
  }
  void seek_one() {
    auto* const one = any_descriptor();
    if (one == nullptr) return;
    const std::size_t to = below(random_, one->second->file->data.size() + 10);
    check(::lseek(one->first, static_cast<off_t>(to), SEEK_SET) == static_cast<off_t>(to), "lseek");
    one->second->position = to;
  }
  void dup_one() {
    auto* const one = any_descriptor();
    if (one == nullptr || descriptors_.size() >= 12) return;
    const int copy = ::dup(one->first);
    if (!check(copy >= 0 && !descriptors_.contains(copy), "dup")) return;
    descriptors_[copy] = one->second;
  }
  void close_one() {
    auto* const one = any_descriptor();
    if (one == nullptr) return;
    check(::close(one->first) == 0, "close");
    descriptors_.erase(one->first);
  }
  void stat_one() {
    struct stat st{};
    if (auto* const one = any_descriptor(); one != nullptr && below(random_, 2) == 0) {
      check(::fstat(one->first, &st) == 0 && static_cast<std::size_t>(st.st_size) == one->second->file->data.size(),
            "fstat tells another size");
      return;
    }
    const std::size_t name = any_name();
    const auto file = names_.find(name);
    const int told = ::stat(path(name).c_str(), &st);
    if (file == names_.end()) {
      check(told != 0 && errno == ENOENT, "stat of what is not there");
    } else {
      check(told == 0 && static_cast<std::size_t>(st.st_size) == file->second->data.size(), "stat tells another size");
    }
  }
  void rename_one() {
    const std::size_t from = any_name();
    const std::size_t to = any_name();
    const int done = ::rename(path(from).c_str(), path(to).c_str());
    const auto file = names_.find(from);
    if (file == names_.end()) {
      check(done != 0 && errno == ENOENT, "rename of what is not there");
      return;
    }
    check(done == 0, "rename");
    if (from == to) return;
    names_[to] = file->second;
    names_.erase(from);
  }
  void unlink_or_cut() {
    if (auto* const one = any_descriptor(); one != nullptr && below(random_, 2) == 0) {
      std::string& all = one->second->file->data;
      const std::size_t size = below(random_, all.size() + 500);
      check(::ftruncate(one->first, static_cast<off_t>(size)) == 0, "ftruncate");
      all.resize(size);
      return;
    }
    const std::size_t name = any_name();
    const int done = ::unlink(path(name).c_str());
    check(names_.erase(name) == 1 ? done == 0 : done != 0 && errno == ENOENT, "unlink");
  }

  const std::string folder_;
  Generator random_;
  std::map<std::size_t, std::shared_ptr<File>> names_;
  std::map<int, std::shared_ptr<Description>> descriptors_;
};

/// Descriptors and a name that all threads share.
class Shared {
 public:
  Shared(std::string folder, std::size_t records) : folder_(std::move(folder)), taken_(records) {
    log_ = ::open((folder_ + "/log").c_str(), O_CREAT | O_RDWR | O_APPEND, 0644);
    queue_ = ::open((folder_ + "/queue").c_str(), O_CREAT | O_RDWR, 0644);
    for (int side : {0, 1}) {
      sides_[static_cast<std::size_t>(side)] =
          ::open((folder_ + "/side" + std::to_string(side)).c_str(), O_CREAT | O_RDWR, 0644);
      const std::string text(kRecord, static_cast<char>('0' + side));
      check(::write(sides_[static_cast<std::size_t>(side)], text.data(), text.size()) == kRecord, "write of a side");
    }
    slot_ = ::dup(sides_[0]);
    std::string all;
    for (std::size_t i = 0; i < records; ++i) all += record(0, i);
    check(::write(queue_, all.data(), all.size()) == static_cast<ssize_t>(all.size()), "write of the queue");
    check(::lseek(queue_, 0, SEEK_SET) == 0, "lseek of the queue");
    replace(0, 0);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  void step(int thread, std::size_t round, Generator& random) {
    switch (below(random, 5)) {
      case 0: return append(thread);
      case 1: return take(random);
      case 2: return look_at_slot(thread, random);
      case 3: return open_the_replaced();
      default: return thread == 0 ? replace(thread, round) : open_the_replaced();
    }
  }

  /// Call it after all threads have ended.
  void finish() {
    std::array<char, kRecord + 1> data{};
    std::array<std::size_t, kThreads> next{};
    std::size_t all = 0;
    for (;; ++all) {
      const ssize_t got = ::pread(log_, data.data(), kRecord, static_cast<off_t>(all * kRecord));
      if (got == 0) break;
      const auto thread = static_cast<std::size_t>(data[0] - '0');
      if (!check(got == kRecord && thread < kThreads, "an appended record is torn")) return;
      check(std::string(data.data(), kRecord) == record(static_cast<int>(thread), next[thread]++),
            "an appended record is lost, or not in its thread's order");
    }
    check(all == appended_.load(), "records were appended that are not there");
    for (std::size_t i = 0; i < queue_end_.load() && i < taken_.size(); ++i)
      check(taken_[i].load() == 1,
            "record " + std::to_string(i) + " was read " + std::to_string(taken_[i].load()) + " times");
    for (const int fd : {log_, queue_, sides_[0], sides_[1], slot_}) check(::close(fd) == 0, "close at the end");
    for (const char* name : {"log", "queue", "side0", "side1", "replaced"})
      check(::unlink((folder_ + "/" + name).c_str()) == 0, std::string("unlink of ") + name);
  }

 private:
  static std::string record(int thread, std::size_t number) {
    std::string text = std::to_string(thread) + ":" + std::to_string(number) + ":";
    text.resize(kRecord, static_cast<char>('a' + number % 26));
    return text;
  }

  void append(int thread) {
    const std::string text = record(thread, own_[static_cast<std::size_t>(thread)]++);
    if (check(::write(log_, text.data(), text.size()) == kRecord, "an append")) ++appended_;
  }
  /// All threads and all copies of the descriptor share the position. So each record must be read exactly once.
  void take(Generator& random) {
    const bool by_copy = below(random, 2) == 0;
    const int fd = by_copy ? ::dup(queue_) : queue_;
    std::array<char, kRecord> data{};
    const ssize_t got = ::read(fd, data.data(), data.size());
    if (by_copy) check(::close(fd) == 0, "close of a copy");
    if (got == 0) return;  // end of the file
    if (!check(got == kRecord, "a read of the queue")) return;
    const std::size_t number = std::strtoull(data.data() + 2, nullptr, 10);
    if (!check(number < taken_.size(), "a record that was never written")) return;
    ++taken_[number];
    ++queue_end_;
  }
  /// One thread replaces the file behind the number. The others must read one of the two files.
  void look_at_slot(int thread, Generator& random) {
    if (thread == 1) {
      check(::dup2(sides_[below(random, 2)], slot_) == slot_, "dup2");
      return;
    }
    std::array<char, kRecord> data{};
    const ssize_t got = ::pread(slot_, data.data(), data.size(), 0);
    const std::string text(data.data(), kRecord);
    check(got == kRecord && (text == std::string(kRecord, '0') || text == std::string(kRecord, '1')),
          "a read by dup2's number");
  }
  /// The name must always exist, and lead to a whole file.
  void replace(int thread, std::size_t round) {
    const std::string fresh = folder_ + "/fresh-" + std::to_string(thread);
    const int fd = ::open(fresh.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
    const std::string text = record(thread, round);
    check(::write(fd, text.data(), text.size()) == kRecord, "write of what replaces");
    check(::close(fd) == 0, "close of what replaces");
    check(::rename(fresh.c_str(), (folder_ + "/replaced").c_str()) == 0, "rename of what replaces");
  }
  void open_the_replaced() {
    const int fd = ::open((folder_ + "/replaced").c_str(), O_RDONLY);
    if (!check(fd >= 0, "open of what is being replaced")) return;
    struct stat st{};
    check(::fstat(fd, &st) == 0 && st.st_size == kRecord, "fstat of what was replaced");
    std::array<char, kRecord> data{};
    const ssize_t got = ::read(fd, data.data(), data.size());
    const std::size_t number = std::strtoull(data.data() + 2, nullptr, 10);
    check(got == kRecord && std::string(data.data(), kRecord) == record(0, number), "what was replaced is torn");
    check(::close(fd) == 0, "close of what was replaced");
  }

  const std::string folder_;
  int log_ = -1;
  int queue_ = -1;
  int slot_ = -1;
  std::array<int, 2> sides_{};
  std::array<std::size_t, kThreads> own_{};
  std::atomic<std::size_t> appended_{0};
  std::vector<std::atomic<int>> taken_;
  std::atomic<std::size_t> queue_end_{0};
};

void work(Shared& shared, const std::string& folder, int thread, unsigned seed, std::size_t rounds) {
  OwnFiles own(folder + "/own-" + std::to_string(thread), seed + static_cast<unsigned>(thread));
  Generator random(seed * 31 + static_cast<unsigned>(thread));
  for (std::size_t i = 0; i < rounds && failures.load() == 0; ++i) {
    own.step();
    if (i % 3 == 0) shared.step(thread, i, random);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string folder = argv[1];
  const auto seed = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  const std::size_t rounds = std::strtoul(argv[3], nullptr, 10);
  check(::mkdir(folder.c_str(), 0755) == 0, "mkdir");
  Shared shared(folder, rounds * kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, std::ref(shared), folder, i, seed, rounds);
  for (std::thread& thread : threads) thread.join();
  shared.finish();
  if (failures.load() == 0) check(::rmdir(folder.c_str()) == 0, "rmdir: something is left");
  return failures.load() == 0 ? 0 : 1;
}
