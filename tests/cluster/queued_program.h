// SPDX-License-Identifier: Apache-2.0
// QueuedProgram: a random program on several clients, some of which queue changes of names. One operation follows
// another, so each answer is known: it shows all that was answered before, to whichever client.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "base/expect.h"
#include "tests/cluster/queueing_clients.h"

namespace spate::cluster {

/// An object as everybody must see it.
struct ModelNode {
  Handle handle;
  FileType type = FileType::kDirectory;
  std::uint32_t mode = 0755;
  bool owner_only = false;  // a directory whose default list gives others nothing
  std::size_t maker = 0;    // the client that has made it
  Bytes data;
  std::optional<WallTime> mtime;  // if it was set and nothing was written since
  std::map<std::string, std::unique_ptr<ModelNode>> entries;
};

/// A file that a program has made and not closed yet.
struct OpenedFile {
  ModelNode* node = nullptr;
  std::uint8_t rights = 0;
};

class QueuedProgram : protected QueueingClients {
 public:
  explicit QueuedProgram(std::uint64_t seed) : QueueingClients(seed) { root_.handle = kRootHandle; }
  virtual ~QueuedProgram() = default;

  /// Ends early when `failed` says that an answer was wrong.
  void run(int steps, const std::function<bool()>& failed = ::testing::Test::HasFailure) {
    for (int step = 0; step < steps && !failed(); ++step) {
      what_ = fmt::format("step {}", step);
      if (one_in(4)) world_.run_for(std::chrono::microseconds(below(120'000)));
      if (one_in(60)) {
        who_ = below(2);
        close_files();
        kill_client();
      }
      if (one_in(80)) restart_meta();
      if (one_in(80)) drop_connection();
      operate();
    }
    for (who_ = 0; who_ < 2 && !failed(); ++who_) close_files();
    for (std::size_t i = 0; i < clients_.size() && !failed(); ++i) {
      who_ = i;
      compare(root_);
    }
    expect_no_loss();
  }
  using QueueingClients::local;
  /// Writes that did not wait for the creation of their file.
  std::uint64_t early_writes() const { return early_writes_; }

 protected:
  /// After each change of names.
  virtual void names_changed() {}
  /// After each write.
  virtual void wrote(const ModelNode&) {}

  /// A directory, often one in which something was made lately.
  ModelNode& directory() {
    ModelNode* at = &root_;
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
  static wire::NamePath at(const ModelNode& directory, const std::string& name) { return {directory.handle, name, 0}; }
  static wire::NewAttributes with_mode(std::uint32_t mode) {
    wire::NewAttributes attributes;
    attributes.mode = mode;
    return attributes;
  }

  void operate() {
    ModelNode& parent = directory();
    who_ = one_in(8) ? below(3) : &parent == &root_ ? below(2) : parent.maker;
    if (only_) who_ = *only_;
    reach();
    const std::string entry = name();
    const auto found = parent.entries.find(entry);
    ModelNode* const node = found == parent.entries.end() ? nullptr : found->second.get();
    what_ += fmt::format(" client {} in {:x} name {}", who_, parent.handle.value, entry);
    switch (below(23)) {
      case 22: return set_default_list(node);
      case 20:
      case 21: return fill(parent, entry, node);
      case 16:
      case 17: return continue_file();
      case 18: return set_time(node);
      case 19: return read(node);
      case 0:
      case 1:
      case 2:
      case 3: return make_directory(parent, entry, node);
      case 4:
      case 5:
      case 6: return make_file(parent, entry, node);
      case 7: return make_link(parent, entry, node);
      case 8: return set_mode(node);
      case 9:
      case 12: return remove(parent, entry, node);
      case 10: return rename(parent, entry, node);
      case 11: return list(parent);
      default: return look(parent, entry, node);
    }
  }

  void added(ModelNode& parent, const std::string& entry, const ModelNode* node, const Result<Attributes>& made,
             FileType type, std::uint32_t mode) {
    if (node != nullptr) {
      EXPECT_ERRC(made, Errc::kExists) << what_;
      return;
    }
    ASSERT_OK(made) << what_;
    if (parent.owner_only && type != FileType::kSymlink) mode &= 0700U;
    EXPECT_EQ(made->mode, mode) << what_;
    auto fresh = std::make_unique<ModelNode>();
    fresh->handle = made->handle;
    EXPECT_TRUE(handles_.insert(made->handle).second) << what_ << ": the handle was used before";
    fresh->type = type;
    fresh->owner_only = parent.owner_only && type == FileType::kDirectory;
    fresh->maker = who_;
    what_ += fmt::format(" -> {:x}", made->handle.value);
    fresh->mode = mode;
    parent.entries[entry] = std::move(fresh);
    names_changed();
  }
  void make_directory(ModelNode& parent, const std::string& entry, const ModelNode* node) {
    what_ += " mkdir";
    added(parent, entry, node, call_it(client().mkdir(at(parent, entry), with_mode(0750))), FileType::kDirectory, 0750);
  }
  void make_link(ModelNode& parent, const std::string& entry, const ModelNode* node) {
    what_ += " symlink";
    added(parent, entry, node, call_it(client().symlink(at(parent, entry), "x" + entry)), FileType::kSymlink, 0777);
  }
  /// Makes files in a new directory, of which no other client knows yet.
  void fill(ModelNode& parent, const std::string& entry, const ModelNode* node) {
    if (node != nullptr) return;
    if (who_ > 1) who_ = below(2);
    make_directory(parent, entry, node);
    const auto made = parent.entries.find(entry);
    if (made == parent.entries.end()) return;
    std::ignore = client().cluster().gathered().has_room();
    if (one_in(2)) world_.run_for(std::chrono::milliseconds(20));  // handles come, and what the targets' room is
    ModelNode& directory = *made->second;
    for (std::uint64_t files = 1 + below(6); files > 0; --files) {
      const std::string file = name();
      const auto found = directory.entries.find(file);
      make_file(directory, file, found == directory.entries.end() ? nullptr : found->second.get());
      if (one_in(10)) world_.run_for(std::chrono::microseconds(below(2000)));
    }
  }
  /// As a mount does: the file is closed without waiting for its creation, or after a write.
  void make_file(ModelNode& parent, const std::string& entry, const ModelNode* node) {
    what_ += " create";
    const bool opens = one_in(2);
    const std::uint8_t rights = opens ? kReadWrite : std::uint8_t{0};
    auto made =
        client().cluster().queued().make({at(parent, entry), FileType::kRegular, with_mode(0640), {}, rights}, 0);
    if (made && *made && opens && one_in(2)) {
      added(parent, entry, node, *made, FileType::kRegular, 0640);
      opened_[who_].push_back({parent.entries.at(entry).get(), rights});
      for (std::uint64_t writes = 1 + below(3); writes > 0; --writes) continue_file();
      if (one_in(2)) return;
      const ModelNode* const made_now = parent.entries.at(entry).get();
      const auto is_it = [made_now](const OpenedFile& one) { return one.node == made_now; };
      const auto still = std::find_if(opened_[who_].begin(), opened_[who_].end(), is_it);
      if (still == opened_[who_].end()) return;
      set_time(still->node);  // as tar does
      close_file(static_cast<std::size_t>(still - opened_[who_].begin()));
      return;
    }
    if (made && *made && opens) {
      const Handle file = (*made)->handle;
      if (one_in(3) || !client().cluster().queued().close({file, Rights::kReadWrite}, 0)) {
        auto opened = call_it(client().queued_files().open(file, rights));
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
  /// The program that has opened a file writes to it, sets its mode or time, or closes it.
  void continue_file() {
    if (who_ > 1 || opened_[who_].empty()) return;
    const std::size_t which = below(opened_[who_].size());
    const OpenedFile opened = opened_[who_][which];
    ModelNode& node = *opened.node;
    what_ += fmt::format(" [open {:x}]", node.handle.value);
    if (one_in(4)) return close_file(which);
    if (one_in(4)) return one_in(2) ? set_mode(&node) : set_time(&node);
    Bytes bytes(1 + below(3000));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_.next());
    what_ += fmt::format(" write {} at {}", bytes.size(), node.data.size());
    const client::NewFile now{node.handle, opened.rights, nullptr};
    Result<bool> early = one_in(2) && client().queued_files().keep(now, node.data.size(), bytes);
    if (!*early) early = call_it(client().queued_files().write(now, node.data.size(), bytes));
    ASSERT_OK(early) << what_;
    if (*early) {
      ++early_writes_;
      what_ += " early";
    } else {
      auto file = call_it(client().queued_files().open(node.handle, opened.rights));
      ASSERT_OK(file) << what_;
      EXPECT_OK(call_it((*file)->write(node.data.size(), bytes))) << what_;
      EXPECT_OK(call_it((*file)->close())) << what_;
      opened_[who_].erase(opened_[who_].begin() + static_cast<std::ptrdiff_t>(which));
    }
    node.data.insert(node.data.end(), bytes.begin(), bytes.end());
    node.mtime.reset();
    wrote(node);
  }
  void close_file(std::size_t which) {
    const OpenedFile opened = opened_[who_][which];
    opened_[who_].erase(opened_[who_].begin() + static_cast<std::ptrdiff_t>(which));
    what_ += " close";
    if (client().cluster().queued().close({opened.node->handle, Rights::kReadWrite}, 0)) return;
    auto file = call_it(client().queued_files().open(opened.node->handle, opened.rights));
    ASSERT_OK(file) << what_;
    EXPECT_OK(call_it((*file)->close())) << what_;
  }
  void close_files() {
    while (!opened_[who_].empty() && !::testing::Test::HasFailure()) close_file(0);
  }
  void set_time(ModelNode* node) {
    what_ += " utimens";
    if (node == nullptr || node->type != FileType::kRegular) return;
    wire::SetattrRequest request;
    request.where.start = node->handle;
    request.mtime = WallTime{static_cast<std::int64_t>(1 + below(1'000'000)) * 1000};
    const auto set = call_it(client().setattr(request));
    ASSERT_OK(set) << what_;
    node->mtime = request.mtime;
    EXPECT_EQ(set->mtime, *request.mtime) << what_;
  }
  void read(const ModelNode* node) {
    what_ += " read";
    if (node == nullptr || node->type != FileType::kRegular) return;
    auto file = call_it(client().open({node->handle, {}, 0}, wire::kOpenRead));
    ASSERT_OK(file) << what_;
    Bytes bytes(node->data.size() + 10);
    const auto got = call_it((*file)->read(0, bytes));
    ASSERT_OK(got) << what_;
    bytes.resize(static_cast<std::size_t>(*got));
    EXPECT_TRUE(bytes == node->data) << what_ << ": " << bytes.size() << " bytes, should be " << node->data.size();
    EXPECT_OK(call_it((*file)->close())) << what_;
  }
  void set_mode(ModelNode* node) {
    what_ += " chmod";
    if (node == nullptr || node->type == FileType::kSymlink) return;
    wire::SetattrRequest request;
    request.where.start = node->handle;
    request.mode = 0700 + static_cast<std::uint32_t>(below(64));
    const auto list = one_in(2) ? client().cluster().queued().answers().set_permissions(node->handle, *request.mode, 0)
                                : std::nullopt;
    const auto set = list ? *list : call_it(client().setattr(request));
    ASSERT_OK(set) << what_;
    node->mode = *request.mode;
    EXPECT_EQ(set->mode, node->mode) << what_;
  }
  /// All that is made in the directory from now on gets a list of rights.
  void set_default_list(ModelNode* node) {
    what_ += " default list";
    if (node == nullptr || node->type != FileType::kDirectory) return;
    wire::SetxattrRequest request;
    request.where.start = node->handle;
    request.name = "system.posix_acl_default";
    Encoder list(request.value);
    list.u32(2);                                                              // the version
    for (const std::uint16_t tag : std::array<std::uint16_t, 3>{1, 4, 32}) {  // owner, owning group, others
      list.u16(tag);
      list.u16(tag == 1 ? 7 : 0);
      list.u32(~0U);
    }
    EXPECT_OK(call_it(client().setxattr(request))) << what_;
    node->owner_only = true;
  }
  void remove(ModelNode& parent, const std::string& entry, const ModelNode* node) {
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
      for (auto& opened : opened_) std::erase_if(opened, [&](const OpenedFile& one) { return one.node == node; });
      parent.entries.erase(entry);
      names_changed();
    }
  }
  void rename(ModelNode& parent, const std::string& entry, ModelNode* node) {
    what_ += " rename";
    ModelNode& to = directory();
    reach();
    const std::string new_name = name();
    if (node == nullptr || node->type == FileType::kDirectory || to.entries.contains(new_name)) return;
    EXPECT_OK(call_it(client().rename(at(parent, entry), at(to, new_name)))) << what_;
    auto moved = std::move(parent.entries.at(entry));
    parent.entries.erase(entry);
    to.entries[new_name] = std::move(moved);
    names_changed();
  }
  void list(const ModelNode& directory) {
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
  void look(const ModelNode& parent, const std::string& entry, const ModelNode* node) {
    const auto found = call_it(client().stat(at(parent, entry)));
    if (node == nullptr) {
      EXPECT_ERRC(found, Errc::kNotFound) << what_ << " stat";
      return;
    }
    ASSERT_OK(found) << what_ << " stat";
    EXPECT_EQ(found->attributes.handle, node->handle) << what_ << " stat";
    EXPECT_EQ(found->attributes.mode, node->mode) << what_ << " stat";
    if (node->type == FileType::kDirectory) EXPECT_EQ(found->attributes.size, node->entries.size()) << what_ << " stat";
    if (node->type == FileType::kRegular) EXPECT_EQ(found->attributes.size, node->data.size()) << what_ << " stat";
    if (node->mtime) EXPECT_EQ(found->attributes.mtime, *node->mtime) << what_ << " stat";
  }
  void compare(const ModelNode& directory) {
    what_ = fmt::format("at the end, client {} in {:x}", who_, directory.handle.value);
    list(directory);
    for (const auto& [name, node] : directory.entries) {
      look(directory, name, node.get());
      if (node->type == FileType::kDirectory) compare(*node);
      if (node->type == FileType::kRegular) read(node.get());
    }
  }

  ModelNode root_;
  std::vector<std::pair<ModelNode*, std::string>> path_;  // to the directory that was chosen last
  std::set<Handle> handles_;
  std::uint64_t early_writes_ = 0;
  std::array<std::vector<OpenedFile>, 2> opened_;
  std::optional<std::size_t> only_;  // the only client that calls
};

}  // namespace spate::cluster
