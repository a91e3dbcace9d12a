// SPDX-License-Identifier: Apache-2.0
// QueuedCrash: a random program after which the machine of a client that queues changes crashes.
#pragma once

#include "tests/cluster/queued_program.h"

namespace spate::cluster {

/// The other clients find a state that the crashed client has seen: the changes of names that are missing are
/// its latest ones, and an fsync has covered none of them. Data that are missing are at the ends of files, and behind
/// what an fsync of the file has covered.
class QueuedCrash : private QueuedProgram {
 public:
  using QueuedProgram::QueuedProgram;

  /// How many changes of names were lost.
  std::size_t run(int steps) {
    QueuedProgram::run(steps);
    begin();
    const std::size_t crashing = below(2);
    only_ = crashing;
    for (std::uint64_t left = 5 + below(40); left > 0 && !::testing::Test::HasFailure(); --left) {
      what_ = "before the crash";
      who_ = crashing;
      if (one_in(4)) world_.run_for(std::chrono::microseconds(below(40'000)));
      if (one_in(12)) sync_a_file();
      operate();
    }
    who_ = crashing;
    for (std::uint64_t left = below(3); left > 0; --left) fill(root_, "last" + std::to_string(left), nullptr);
    world_.kill_client(*clients_[crashing], bmi::sim::Death::kMachine);
    world_.run_for(std::chrono::seconds(1));
    who_ = 2;
    what_ = "after the crash";
    return ::testing::Test::HasFailure() ? 0 : check();
  }

 private:
  using Names = std::map<std::string, std::uint64_t>;

  void begin() {
    each_file(root_,
              [this](const ModelNode& file) { covered_[file.handle.value] = written_[file.handle.value] = file.data; });
    recording_ = true;
    names_changed();
    durable_ = 0;
  }
  template <typename Use>
  static void each_file(const ModelNode& directory, const Use& use) {
    for (const auto& [name, node] : directory.entries) {
      if (node->type == FileType::kRegular) use(*node);
      each_file(*node, use);
    }
  }
  static void collect(const ModelNode& directory, const std::string& path, Names& names) {
    for (const auto& [name, node] : directory.entries) {
      names[path + "/" + name] = node->handle.value;
      collect(*node, path + "/" + name, names);
    }
  }
  void names_changed() override {
    if (recording_) collect(root_, "", states_.emplace_back());
  }
  void wrote(const ModelNode& file) override {
    if (recording_) written_[file.handle.value] = file.data;
  }

  void sync_a_file() {
    std::vector<const ModelNode*> files;
    each_file(root_, [&files](const ModelNode& file) { files.push_back(&file); });
    if (files.empty()) return;
    const ModelNode& chosen = *files[below(files.size())];
    what_ += fmt::format(" sync {:x}", chosen.handle.value);
    auto file = call_it(client().queued_files().open(chosen.handle, kReadWrite));
    ASSERT_OK(file) << what_;
    ASSERT_OK(call_it((*file)->sync())) << what_;
    covered_[chosen.handle.value] = chosen.data;
    durable_ = states_.size() - 1;
    EXPECT_OK(call_it((*file)->close())) << what_;
  }

  std::size_t check() {
    Names found;
    look_at(kRootHandle, "", found);
    std::size_t state = states_.size() - 1;
    while (state > durable_ && states_[state] != found) --state;
    EXPECT_EQ(states_[state], found) << "the names are of no state since the last fsync, of "
                                     << states_.size() - durable_;
    return states_.size() - 1 - state;
  }
  void look_at(Handle directory, const std::string& path, Names& found) {
    wire::ReaddirRequest request;
    request.handle = directory;
    const auto page = call_it(client().readdir(request));
    ASSERT_OK(page) << path;
    for (const wire::DirectoryEntry& entry : page->entries) {
      const std::string at = path + "/" + entry.name;
      found[at] = entry.handle.value;
      if (entry.type == FileType::kDirectory) look_at(entry.handle, at, found);
      if (entry.type == FileType::kRegular) check_data(entry.handle, at);
    }
  }
  void check_data(Handle handle, const std::string& path) {
    const Bytes& all = written_[handle.value];
    auto file = call_it(client().open({handle, {}, 0}, wire::kOpenRead));
    ASSERT_OK(file) << path;
    Bytes bytes(all.size() + 10);
    const auto got = call_it((*file)->read(0, bytes));
    ASSERT_OK(got) << path;
    bytes.resize(static_cast<std::size_t>(*got));
    EXPECT_GE(bytes.size(), covered_[handle.value].size()) << path << " has lost what an fsync has covered";
    const bool begins = bytes.size() <= all.size() && std::equal(bytes.begin(), bytes.end(), all.begin());
    EXPECT_TRUE(begins) << path << " has " << bytes.size() << " bytes that nobody has written";
    EXPECT_OK(call_it((*file)->close())) << path;
  }

  bool recording_ = false;
  std::vector<Names> states_;  // after each change since begin()
  std::size_t durable_ = 0;    // the state that the last fsync has covered
  std::map<std::uint64_t, Bytes> written_;
  std::map<std::uint64_t, Bytes> covered_;
};

}  // namespace spate::cluster
