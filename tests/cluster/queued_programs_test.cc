// SPDX-License-Identifier: Apache-2.0
// Random programs on several clients, some of which queue changes of names. One operation follows another, so each
// answer is known: it shows all that was answered before, to whichever client.
#include <fmt/format.h>
#include <gtest/gtest-spi.h>

#include <functional>
#include <map>
#include <set>

#include "base/expect.h"
#include "client/session/handover_state.h"
#include "client/session/queue_memory.h"
#include "model/defect.h"
#include "tests/cluster/calls.h"
#include "tests/cluster/memory_copy.h"

namespace spate::cluster {
namespace {

using std::chrono::milliseconds;

/// An object as everybody must see it.
struct Node {
  Handle handle;
  FileType type = FileType::kDirectory;
  std::uint32_t mode = 0755;
  std::size_t maker = 0;  // the client that has made it
  std::map<std::string, std::unique_ptr<Node>> entries;
};

/// A client with the memory of a mount, which outlives its process.
struct Machine {
  UniqueFd state;
  UniqueFd queue;
  std::unique_ptr<client::HandoverState> handover;
  std::unique_ptr<client::QueueMemory> memory;
};

class QueuedProgram {
 public:
  explicit QueuedProgram(std::uint64_t seed) : random_(seed), world_({}) {
    root_.handle = kRootHandle;
    for (int i = 0; i < 2; ++i) {
      begin_machine(UniqueFd(::memfd_create("state", MFD_CLOEXEC)), UniqueFd(::memfd_create("queue", MFD_CLOEXEC)));
      clients_.push_back(&start(machines_.back().get()));
      machine_of_.push_back(machines_.back().get());
    }
    clients_.push_back(&start(nullptr));
    machine_of_.push_back(nullptr);
  }

  /// Ends early when `failed` says that an answer was wrong.
  void run(int steps, const std::function<bool()>& failed = ::testing::Test::HasFailure) {
    for (int step = 0; step < steps && !failed(); ++step) {
      what_ = fmt::format("step {}", step);
      if (one_in(4)) world_.run_for(std::chrono::microseconds(below(120'000)));
      if (one_in(60)) kill_client();
      if (one_in(80)) restart_meta();
      operate();
    }
    for (std::size_t i = 0; i < clients_.size() && !failed(); ++i) {
      who_ = i;
      compare(root_);
    }
    for (ClientProcess* const client : clients_) {
      local_ += client->client().cluster().queued().counters().queued;
      EXPECT_EQ(client->client().cluster().queued().counters().lost, 0U);
    }
  }
  std::uint64_t local() const { return local_; }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_.next() % limit; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  client::Client& client() { return clients_[who_]->client(); }
  template <typename T>
  T call_it(job::Task<T> task) {
    return call(world_, *clients_[who_], std::move(task));
  }

  void begin_machine(UniqueFd state, UniqueFd queue) {
    auto machine = std::make_unique<Machine>();
    machine->state = std::move(state);
    machine->queue = std::move(queue);
    machine->handover = client::HandoverState::open(machine->state.get()).value();
    machine->memory = client::QueueMemory::open(machine->queue.get(), std::size_t{1} << 18U).value();
    machines_.push_back(std::move(machine));
  }
  ClientProcess& start(Machine* machine) {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    options.deadline = std::chrono::minutes(2);
    if (machine != nullptr) {
      options.handover = machine->handover.get();
      options.queue = machine->memory.get();
    }
    return world_.start_client(std::move(options));
  }

  void kill_client() {
    who_ = below(2);
    const Machine& old = *machine_of_[who_];
    begin_machine(memory_copy(old.state.get()), memory_copy(old.queue.get()));
    local_ += client().cluster().queued().counters().queued;
    world_.kill_client(*clients_[who_], bmi::sim::Death::kProcess);
    machine_of_[who_] = machines_.back().get();
    clients_[who_] = &start(machine_of_[who_]);
    client().session().resume();
    EXPECT_TRUE(call_it(client().cluster().queued().send_all_within(std::chrono::seconds(60)))) << what_;
  }

  void restart_meta() {
    const ServerId meta = world_.leader();
    world_.kill_server(meta, bmi::sim::Death::kProcess);
    world_.run_for(std::chrono::microseconds(below(200'000)));
    world_.start_server(meta);
    if (one_in(2)) world_.run_for(std::chrono::microseconds(below(500'000)));
  }

  /// A directory, often one in which something was made lately.
  Node& directory() {
    Node* at = &root_;
    path_.clear();
    for (int depth = 0; depth < 4; ++depth) {
      std::vector<std::string> below_it;
      for (auto& [name, node] : at->entries) {
        if (node->type == FileType::kDirectory) below_it.push_back(name);
      }
      if (below_it.empty() || one_in(5)) break;
      const std::string& chosen = below_it[below(below_it.size())];
      path_.emplace_back(at, chosen);
      at = at->entries.at(chosen).get();
    }
    return *at;
  }
  /// Nobody can know a handle without having looked up the name.
  void reach() {
    for (const auto& [directory, name] : path_) look(*directory, name, directory->entries.at(name).get());
  }
  std::string name() { return "n" + std::to_string(below(6)); }
  static wire::NamePath at(const Node& directory, const std::string& name) { return {directory.handle, name, 0}; }
  static wire::NewAttributes with_mode(std::uint32_t mode) {
    wire::NewAttributes attributes;
    attributes.mode = mode;
    return attributes;
  }

  void operate() {
    Node& parent = directory();
    who_ = one_in(8) ? below(3) : &parent == &root_ ? below(2) : parent.maker;
    reach();
    const std::string entry = name();
    const auto found = parent.entries.find(entry);
    Node* const node = found == parent.entries.end() ? nullptr : found->second.get();
    what_ += fmt::format(" client {} in {:x} name {}", who_, parent.handle.value, entry);
    switch (below(16)) {
      case 0:
      case 1:
      case 2:
      case 3: return make_directory(parent, entry, node);
      case 4:
      case 5:
      case 6: return make_file(parent, entry, node);
      case 7: return make_link(parent, entry, node);
      case 8: return set_mode(node);
      case 9: return remove(parent, entry, node);
      case 10: return rename(parent, entry, node);
      case 11: return list(parent);
      default: return look(parent, entry, node);
    }
  }

  void added(Node& parent, const std::string& entry, const Node* node, const Result<Attributes>& made, FileType type,
             std::uint32_t mode) {
    if (node != nullptr) {
      EXPECT_ERRC(made, Errc::kExists) << what_;
      return;
    }
    ASSERT_OK(made) << what_;
    EXPECT_EQ(made->mode, mode) << what_;
    auto fresh = std::make_unique<Node>();
    fresh->handle = made->handle;
    EXPECT_TRUE(handles_.insert(made->handle).second) << what_ << ": the handle was used before";
    fresh->type = type;
    fresh->maker = who_;
    what_ += fmt::format(" -> {:x}", made->handle.value);
    fresh->mode = mode;
    parent.entries[entry] = std::move(fresh);
  }
  void make_directory(Node& parent, const std::string& entry, const Node* node) {
    what_ += " mkdir";
    added(parent, entry, node, call_it(client().mkdir(at(parent, entry), with_mode(0750))), FileType::kDirectory, 0750);
  }
  void make_link(Node& parent, const std::string& entry, const Node* node) {
    what_ += " symlink";
    added(parent, entry, node, call_it(client().symlink(at(parent, entry), "x" + entry)), FileType::kSymlink, 0777);
  }
  /// As a mount does: the file is closed without waiting for its creation, or after a write.
  void make_file(Node& parent, const std::string& entry, const Node* node) {
    what_ += " create";
    const bool opens = one_in(2);
    const std::uint8_t rights = opens ? kReadWrite : std::uint8_t{0};
    auto made =
        client().cluster().queued().make({at(parent, entry), FileType::kRegular, with_mode(0640), {}, rights}, 0);
    if (made && *made && opens) {
      const Handle file = (*made)->handle;
      if (one_in(3) || !client().cluster().queued().close(file, Rights::kReadWrite, 0)) {
        auto opened = call_it(client().open_queued(file, rights));
        ASSERT_OK(opened) << what_;
        EXPECT_OK(call_it((*opened)->close())) << what_;
      }
    }
    if (!made) {
      const auto flags = static_cast<std::uint8_t>(kReadWrite | wire::kOpenExclusive);
      auto opened = call_it(client().create(at(parent, entry), flags, {with_mode(0640), {}}));
      made = opened ? Result<Attributes>((*opened)->attributes()) : Result<Attributes>(opened.error());
      if (opened) EXPECT_OK(call_it((*opened)->close())) << what_;
    }
    added(parent, entry, node, *made, FileType::kRegular, 0640);
  }
  void set_mode(Node* node) {
    what_ += " chmod";
    if (node == nullptr || node->type == FileType::kSymlink) return;
    wire::SetattrRequest request;
    request.where.start = node->handle;
    request.mode = 0700 + static_cast<std::uint32_t>(below(64));
    const auto set = call_it(client().setattr(request));
    ASSERT_OK(set) << what_;
    node->mode = *request.mode;
    EXPECT_EQ(set->mode, node->mode) << what_;
  }
  void remove(Node& parent, const std::string& entry, const Node* node) {
    what_ += " remove";
    const bool directory = node != nullptr && node->type == FileType::kDirectory;
    const auto removed =
        directory ? call_it(client().rmdir(at(parent, entry))) : call_it(client().unlink(at(parent, entry)));
    if (node == nullptr) {
      EXPECT_ERRC(removed, Errc::kNotFound) << what_;
    } else if (directory && !node->entries.empty()) {
      EXPECT_ERRC(removed, Errc::kNotEmpty) << what_;
    } else {
      EXPECT_OK(removed) << what_;
      parent.entries.erase(entry);
    }
  }
  void rename(Node& parent, const std::string& entry, Node* node) {
    what_ += " rename";
    Node& to = directory();
    reach();
    const std::string new_name = name();
    if (node == nullptr || node->type == FileType::kDirectory || to.entries.contains(new_name)) return;
    EXPECT_OK(call_it(client().rename(at(parent, entry), at(to, new_name)))) << what_;
    auto moved = std::move(parent.entries.at(entry));
    parent.entries.erase(entry);
    to.entries[new_name] = std::move(moved);
  }
  void list(const Node& directory) {
    wire::ReaddirRequest request;
    request.handle = directory.handle;
    request.attributes = one_in(2);
    const auto page = call_it(client().readdir(request));
    ASSERT_OK(page) << what_ << " list";
    std::map<std::string, std::uint64_t> got;
    for (const wire::DirectoryEntry& entry : page->entries) got[entry.name] = entry.handle.value;
    std::map<std::string, std::uint64_t> wanted;
    for (const auto& [name, node] : directory.entries) wanted[name] = node->handle.value;
    EXPECT_EQ(got, wanted) << what_ << " list";
  }
  void look(const Node& parent, const std::string& entry, const Node* node) {
    const auto found = call_it(client().stat(at(parent, entry)));
    if (node == nullptr) {
      EXPECT_ERRC(found, Errc::kNotFound) << what_ << " stat";
      return;
    }
    ASSERT_OK(found) << what_ << " stat";
    EXPECT_EQ(found->attributes.handle, node->handle) << what_ << " stat";
    EXPECT_EQ(found->attributes.mode, node->mode) << what_ << " stat";
    if (node->type == FileType::kDirectory) EXPECT_EQ(found->attributes.size, node->entries.size()) << what_ << " stat";
  }
  void compare(const Node& directory) {
    what_ = fmt::format("at the end, client {} in {:x}", who_, directory.handle.value);
    list(directory);
    for (const auto& [name, node] : directory.entries) {
      look(directory, name, node.get());
      if (node->type == FileType::kDirectory) compare(*node);
    }
  }

  SeededRandom random_;
  std::vector<std::unique_ptr<Machine>> machines_;
  World world_;
  std::vector<ClientProcess*> clients_;
  std::vector<Machine*> machine_of_;
  Node root_;
  std::vector<std::pair<Node*, std::string>> path_;  // to the directory that was chosen last
  std::set<Handle> handles_;
  std::size_t who_ = 0;
  std::uint64_t local_ = 0;
  std::string what_;
};

TEST(QueuedPrograms, EachClientSeesEverythingThatWasAnswered) {
  std::uint64_t local = 0;
  // In the run of seed 889 a client could queue a change before it knew its number.
  for (std::uint64_t seed = 1; seed <= 889 && !HasFailure(); seed = seed == 40 ? 889 : seed + 1) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    QueuedProgram program(seed);
    program.run(400);
    local += program.local();
  }
  EXPECT_GT(local, 1000U) << "hardly anything was answered locally";
}

/// Whether a program with the defect gets a wrong answer.
bool is_found(Defect defect) {
  ::testing::TestPartResultArray failures;
  const ::testing::ScopedFakeTestPartResultReporter intercepts(&failures);
  for (std::uint64_t seed = 1; seed <= 40 && failures.size() == 0; ++seed) {
    QueuedProgram program(seed);
    planted_defect = defect;
    program.run(400, [&] { return failures.size() > 0; });
    planted_defect = Defect::kNone;
  }
  return failures.size() > 0;
}

TEST(QueuedPrograms, FindPlantedDefects) {
  EXPECT_TRUE(is_found(Defect::kUnrecalledByRead)) << "a read that recalls nothing";
  EXPECT_TRUE(is_found(Defect::kQueuedTwice)) << "a change that is made twice";
}

}  // namespace
}  // namespace spate::cluster
