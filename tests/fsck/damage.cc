// SPDX-License-Identifier: Apache-2.0
// spate-damage: edits the records of a stopped meta server, for tests of fsck. It does not check what it writes.
//   spate-damage FOLDER [COMMAND ARGUMENT...]...      each command is one change; all of them are one transaction
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "job/executor.h"
#include "job/storage.h"
#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"
#include "trove/rocksdb/rocksdb_keyval.h"

namespace spate::meta {
namespace {

using Arguments = std::vector<std::string>;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "spate-damage: %s\n", why.c_str());
  std::exit(2);
}

Handle handle_of(const std::string& text) { return Handle(std::strtoull(text.c_str(), nullptr, 10)); }
std::uint64_t number_of(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

/// One open store and the transaction under way.
class Store {
 public:
  explicit Store(const std::string& folder) : executor_(clock_) {
    trove::RocksdbOptions options;
    options.folder = folder;
    auto opened = trove::open_rocksdb(options);
    if (!opened) die(opened.error().message());
    keyval_ = *std::move(opened);
    context_ = std::make_unique<job::KeyvalContext>(*keyval_, executor_);
    transaction_ = std::make_unique<job::Transaction>(context_->begin());
    const auto superblock = get<Superblock>(global_key("superblock"));
    name_hash_ = NameHash{superblock.name_seed, superblock.name_bits};
  }

  template <typename Record>
  Record get(StoreKey key) {
    const auto value = executor_.run(read(*transaction_, key));
    if (!value) die("there is no such record");
    auto record = decode_record<Record>(*value);
    if (!record) die(record.error().message());
    return *std::move(record);
  }
  template <typename Record>
  void put(StoreKey key, const Record& record) {
    transaction_->put(key, encoded(record));
  }
  void put_raw(StoreKey key, const std::string& value) { transaction_->put(key, as_bytes(value)); }
  void erase(StoreKey key) { transaction_->erase(key); }
  StoreKey entry(const std::string& directory, const std::string& name) {
    return entry_key(handle_of(directory), name_hash_(name), name);
  }
  WallTime ago(const std::string& seconds) {
    return WallTime{clock_.wall().ns - static_cast<std::int64_t>(number_of(seconds)) * 1'000'000'000};
  }
  void commit() {
    if (executor_.run(write(*transaction_)) != Errc::kOk) die("the store does not take it");
    transaction_.reset();
  }

 private:
  static job::Task<std::optional<Bytes>> read(job::Transaction& transaction, StoreKey key) {
    auto done = co_await transaction.get(key);
    co_return std::move(done.value);
  }
  static job::Task<Errc> write(job::Transaction& transaction) {
    const auto done = co_await transaction.commit(trove::Durability::kMachine);
    co_return done.status;
  }

  SystemClock clock_;
  job::Executor executor_;
  std::unique_ptr<trove::Keyval> keyval_;
  std::unique_ptr<job::KeyvalContext> context_;
  std::unique_ptr<job::Transaction> transaction_;
  NameHash name_hash_;
};

void set_field(Store& store, const Arguments& a) {
  const StoreKey key = inode_key(handle_of(a[0]));
  InodeRecord inode = store.get<InodeRecord>(key);
  const std::uint64_t value = number_of(a[2]);
  const std::map<std::string, std::function<void()>> fields = {
      {"links", [&] { inode.attributes.link_count = static_cast<std::uint32_t>(value); }},
      {"size", [&] { inode.attributes.size = value; }},
      {"size_known", [&] { inode.attributes.size_known = value != 0; }},
      {"parent",
       [&] {
         inode.parent = Handle(value);
         inode.second_parent = Handle();
       }},
      {"write_opens", [&] { inode.write_opens = static_cast<std::uint32_t>(value); }},
      {"truncating", [&] { inode.truncating = value != 0; }},
      {"truncate_generation", [&] { inode.truncate_generation = value; }},
      {"xattr_count", [&] { inode.xattr_count = static_cast<std::uint32_t>(value); }},
  };
  const auto field = fields.find(a[1]);
  if (field == fields.end()) die("an inode has no field " + a[1]);
  field->second();
  store.put(key, inode);
}

void add_size(Store& store, const Arguments& a) {
  const StoreKey key = inode_key(handle_of(a[0]));
  InodeRecord inode = store.get<InodeRecord>(key);
  inode.attributes.size += number_of(a[1]);
  store.put(key, inode);
}

Layout layout_of(Store& store, const std::string& handle) {
  return store.get<InodeRecord>(inode_key(handle_of(handle))).layout.value();
}

struct Command {
  std::size_t arguments;
  const char* form;
  std::function<void(Store&, const Arguments&)> run;
};

FileType type_of(const std::string& text) { return static_cast<FileType>(number_of(text)); }

const std::map<std::string, Command>& commands() {
  static const std::map<std::string, Command> all = {
      {"drop-inode", {1, "HANDLE", [](Store& s, const Arguments& a) { s.erase(inode_key(handle_of(a[0]))); }}},
      {"drop-entry", {2, "DIRECTORY NAME", [](Store& s, const Arguments& a) { s.erase(s.entry(a[0], a[1])); }}},
      {"put-entry",
       {4, "DIRECTORY NAME HANDLE TYPE",
        [](Store& s, const Arguments& a) { s.put(s.entry(a[0], a[1]), EntryRecord{handle_of(a[2]), type_of(a[3])}); }}},
      {"misfile-entry",
       {3, "DIRECTORY NAME HANDLE",
        [](Store& s, const Arguments& a) {
          s.erase(s.entry(a[0], a[1]));
          s.put(entry_key(handle_of(a[0]), 4711, a[1]), EntryRecord{handle_of(a[2]), FileType::kRegular});
        }}},
      {"set", {3, "HANDLE FIELD VALUE", set_field}},
      {"add-size", {2, "HANDLE BYTES", add_size}},
      {"garble-inode",
       {1, "HANDLE", [](Store& s, const Arguments& a) { s.put_raw(inode_key(handle_of(a[0])), "\1??"); }}},
      {"put-xattr",
       {2, "HANDLE NAME",
        [](Store& s, const Arguments& a) { s.put_raw(xattr_key(handle_of(a[0]), a[1]), "\1value"); }}},
      {"put-open",
       {2, "HANDLE CLIENT",
        [](Store& s, const Arguments& a) {
          s.put(open_key(handle_of(a[0]), ClientId(number_of(a[1])), 1), OpenRecord{1, 1});
        }}},
      {"put-answer",
       {1, "CLIENT",
        [](Store& s, const Arguments& a) { s.put(answer_key(ClientId(number_of(a[0])), 0), AnswerRecord()); }}},
      {"put-removal",
       {3, "HANDLE LIKE SECONDS_AGO",
        [](Store& s, const Arguments& a) {
          s.put(removal_key(handle_of(a[0])), RemovalRecord{layout_of(s, a[1]), s.ago(a[2])});
        }}},
      {"put-lost-removal",
       {3, "HANDLE LIKE SECONDS_AGO",
        [](Store& s, const Arguments& a) {
          RemovalRecord record{layout_of(s, a[1]), s.ago(a[2])};
          record.layout.slots[0].targets[0] = TargetId(60000);
          s.put(removal_key(handle_of(a[0])), record);
        }}},
      {"put-intent",
       {5, "HANDLE LIKE SIZE GENERATION SECONDS_AGO",
        [](Store& s, const Arguments& a) {
          TruncateIntent intent;
          intent.size = number_of(a[2]);
          intent.generation = number_of(a[3]);
          intent.when = s.ago(a[4]);
          intent.layout = layout_of(s, a[1]);
          s.put(truncate_key(handle_of(a[0])), intent);
        }}},
      {"put-unsettled",
       {2, "HANDLE SECONDS_AGO",
        [](Store& s, const Arguments& a) { s.put(unsettled_key(handle_of(a[0])), UnsettledRecord{s.ago(a[1])}); }}},
  };
  return all;
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::printf("spate-damage FOLDER [COMMAND ARGUMENT...]...\n");
    for (const auto& [name, command] : commands()) std::printf("  %s %s\n", name.c_str(), command.form);
    return argc < 2 ? 2 : 0;
  }
  Store store(argv[1]);
  for (int at = 2; at < argc;) {
    const auto found = commands().find(argv[at]);
    if (found == commands().end()) die(std::string("no command ") + argv[at]);
    const auto count = static_cast<int>(found->second.arguments);
    if (at + count >= argc) die(found->first + " takes " + found->second.form);
    found->second.run(store, Arguments(argv + at + 1, argv + at + 1 + count));
    at += 1 + count;
  }
  store.commit();
  return 0;
}

}  // namespace
}  // namespace spate::meta

int main(int argc, char** argv) { return spate::meta::run(argc, argv); }
