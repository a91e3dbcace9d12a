// SPDX-License-Identifier: Apache-2.0
// Random operations, compared with a model in memory that is too simple to have the same bugs.
#include <map>
#include <memory>

#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

struct Node;
using NodePtr = std::shared_ptr<Node>;

struct Node {
  bool directory = false;
  std::map<std::string, NodePtr> children;
};

/// The result of a path of plain names: its parent (null if there is none), the name, the node (null if there is none).
struct Found {
  NodePtr parent;
  Errc error = Errc::kOk;  // of the path to the parent
  std::string name;
  NodePtr node;
};

class NamesModel {
 public:
  NamesModel() { root_->directory = true; }

  Errc make(const std::string& path, bool directory) {
    const Found at = find(path);
    if (at.error != Errc::kOk) return at.error;
    if (at.node) return Errc::kExists;
    at.parent->children[at.name] = std::make_shared<Node>(Node{directory, {}});
    return Errc::kOk;
  }
  Errc unlink(const std::string& path) {
    const Found at = find(path);
    if (at.error != Errc::kOk) return at.error;
    if (!at.node) return Errc::kNotFound;
    if (at.node->directory) return Errc::kIsDirectory;
    at.parent->children.erase(at.name);
    return Errc::kOk;
  }
  Errc rmdir(const std::string& path) {
    const Found at = find(path);
    if (at.error != Errc::kOk) return at.error;
    if (!at.node) return Errc::kNotFound;
    if (!at.node->directory) return Errc::kNotDirectory;
    if (!at.node->children.empty()) return Errc::kNotEmpty;
    at.parent->children.erase(at.name);
    return Errc::kOk;
  }
  Errc link(const std::string& existing, const std::string& path) {
    const Found from = find(existing);
    if (from.error != Errc::kOk) return from.error;
    if (!from.node) return Errc::kNotFound;
    const Found to = find(path);
    if (to.error != Errc::kOk) return to.error;
    if (to.node) return Errc::kExists;
    if (from.node->directory) return Errc::kNotPermitted;
    to.parent->children[to.name] = from.node;
    return Errc::kOk;
  }
  Errc rename(const std::string& from_path, const std::string& to_path, std::uint8_t flags) {
    const Found from = find(from_path);
    if (from.error != Errc::kOk) return from.error;
    const Found to = find(to_path);
    if (to.error != Errc::kOk) return to.error;
    if (!from.node) return Errc::kNotFound;
    const bool exchange = flags == wire::kRenameExchange;
    if (exchange && !to.node) return Errc::kNotFound;
    if (to.node && flags == wire::kRenameNoReplace) return Errc::kExists;
    if (from.node->directory && holds(from.node, to.parent)) return Errc::kInvalidArgument;
    if (exchange && to.node && to.node->directory && holds(to.node, from.parent)) return Errc::kInvalidArgument;
    if (to.node == from.node) return Errc::kOk;
    if (to.node && !exchange) {
      if (to.node->directory && !from.node->directory) return Errc::kIsDirectory;
      if (!to.node->directory && from.node->directory) return Errc::kNotDirectory;
      if (!to.node->children.empty()) return Errc::kNotEmpty;
    }
    to.parent->children[to.name] = from.node;
    if (exchange) {
      from.parent->children[from.name] = to.node;
    } else {
      from.parent->children.erase(from.name);
    }
    return Errc::kOk;
  }

  /// Every path and its object; a file with several names is shown by the first of them.
  std::map<std::string, std::string> listing() const {
    std::map<std::string, std::string> out;
    std::map<const Node*, std::string> first;
    list(root_, "", first, out);
    return out;
  }

 private:
  Found find(const std::string& path) const {
    Found found;
    found.parent = root_;
    std::size_t begin = 0;
    for (std::size_t slash; (slash = path.find('/', begin)) != std::string::npos; begin = slash + 1) {
      const auto next = found.parent->children.find(path.substr(begin, slash - begin));
      if (next == found.parent->children.end()) return {nullptr, Errc::kNotFound, "", nullptr};
      if (!next->second->directory) return {nullptr, Errc::kNotDirectory, "", nullptr};
      found.parent = next->second;
    }
    found.name = path.substr(begin);
    const auto node = found.parent->children.find(found.name);
    if (node != found.parent->children.end()) found.node = node->second;
    return found;
  }
  static bool holds(const NodePtr& outer, const NodePtr& inner) {
    if (outer == inner) return true;
    for (const auto& [name, child] : outer->children) {
      if (child->directory && holds(child, inner)) return true;
    }
    return false;
  }
  static void list(const NodePtr& directory, const std::string& prefix, std::map<const Node*, std::string>& first,
                   std::map<std::string, std::string>& out) {
    for (const auto& [name, child] : directory->children) {
      const std::string path = prefix + name;
      out[path] = child->directory ? "directory" : "file " + first.emplace(child.get(), path).first->second;
      if (child->directory) list(child, path + "/", first, out);
    }
  }
  NodePtr root_ = std::make_shared<Node>();
};

void list(User& user, Handle directory, const std::string& prefix, std::map<Handle, std::string>& first,
          std::map<std::string, std::string>& out) {
  std::map<std::string, wire::DirectoryEntry> entries;
  const auto page = user.readdir(directory);
  for (const auto& entry : page->entries) entries[entry.name] = entry;
  for (const auto& [name, entry] : entries) {
    const std::string path = prefix + name;
    const bool is_directory = entry.type == FileType::kDirectory;
    out[path] = is_directory ? "directory" : "file " + first.emplace(entry.handle, path).first->second;
    if (is_directory) list(user, entry.handle, path + "/", first, out);
  }
}

job::Task<InodeRecord> inode_record(TestFs& fs, Handle handle) {
  job::Transaction transaction = fs.context.begin();
  const auto got = co_await transaction.get(inode_key(handle));
  co_return decode_record<InodeRecord>(got.value.value()).value();
}

/// Each object's parent has a name of it, or is unknown. Yields how many files know theirs.
std::size_t check_parents(TestFs& fs, User& user) {
  std::map<Handle, std::multiset<Handle>> directories_of;
  std::vector<Handle> left{kRootHandle};
  while (!left.empty()) {
    const Handle directory = left.back();
    left.pop_back();
    const auto page = user.readdir(directory);
    for (const auto& entry : page->entries) {
      directories_of[entry.handle].insert(directory);
      if (entry.type == FileType::kDirectory) left.push_back(entry.handle);
    }
  }
  std::size_t known = 0;
  for (const auto& [handle, directories] : directories_of) {
    const InodeRecord inode = fs.run(inode_record(fs, handle));
    if (inode.parent) EXPECT_TRUE(directories.contains(inode.parent)) << handle.value << " in " << inode.parent.value;
    const std::size_t names = inode.second_parent == inode.parent ? 2 : 1;
    if (inode.second_parent) EXPECT_GE(directories.count(inode.second_parent), names) << handle.value;
    // An object that has had one or two names since it was made knows all of them.
    if (!inode.is_directory() && directories.size() == 1 && inode.parent) EXPECT_EQ(inode.second_parent.value, 0U);
    if (inode.parent && !inode.is_directory()) ++known;
  }
  return known;
}

std::string some_path(Random& random) {
  static const char* const names[] = {"a", "b", "c", "d"};
  std::string path = names[random.below(4)];
  for (std::uint64_t depth = random.below(4); depth > 0; --depth) path += std::string("/") + names[random.below(4)];
  return path;
}

struct Outcomes {
  std::string what;
  Errc expected;
  Errc actual;
};

Outcomes do_some(Random& random, User& user, NamesModel& model) {
  const std::string path = some_path(random);
  const std::string other = some_path(random);
  switch (random.below(8)) {
    case 0:
    case 1: return {"mkdir " + path, model.make(path, true), user.mkdir(path).code()};
    case 2: return {"create " + path, model.make(path, false), user.create(path).code()};
    case 3: return {"unlink " + path, model.unlink(path), user.unlink(path).code()};
    case 4: return {"rmdir " + path, model.rmdir(path), user.rmdir(path).code()};
    case 5: return {"link " + path + " " + other, model.link(path, other), user.link(path, other).code()};
    default: break;
  }
  const auto flags = static_cast<std::uint8_t>(random.below(3));  // none, no replace, exchange
  return {"rename " + path + " " + other + " " + std::to_string(flags), model.rename(path, other, flags),
          user.rename(path, other, flags).code()};
}

TEST(MetaModel, RandomOperationsAgreeWithTheModel) {
  std::size_t parents = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TestFsOptions options;
    options.meta.name_hash_bits = static_cast<std::uint8_t>(seed % 2 == 0 ? 63 : 1);
    TestFs fs(options);
    User user(fs, root_user());
    NamesModel model;
    SeededRandom random(seed);
    for (int i = 0; i < 400; ++i) {
      const Outcomes outcomes = do_some(random, user, model);
      ASSERT_EQ(outcomes.actual, outcomes.expected) << "operation " << i << ": " << outcomes.what << ": model says "
                                                    << name(outcomes.expected) << ", server " << name(outcomes.actual);
    }
    std::map<Handle, std::string> first;
    std::map<std::string, std::string> listed;
    list(user, kRootHandle, "", first, listed);
    EXPECT_EQ(listed, model.listing());
    EXPECT_GT(listed.size(), 5U);
    parents += check_parents(fs, user);
  }
  EXPECT_GT(parents, 100U);
}

}  // namespace
}  // namespace spate::meta
