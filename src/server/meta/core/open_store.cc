// SPDX-License-Identifier: Apache-2.0
// Checks that a store belongs to this meta server, or makes a new one.
#include "log/log.h"
#include "server/meta/core/core.h"

namespace spate::meta {
namespace {

constexpr std::string_view kSuperblock = "superblock";

std::string hex(FsId id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id.value));
  return text;
}

}  // namespace

job::Task<Result<bool>> MetaCore::is_empty(job::Transaction& store) {
  trove::KeyRange everything;
  everything.end = {std::byte{0xFF}};
  const auto read = co_await store.range(everything);
  if (read.status != Errc::kOk) co_return read.status;
  co_return read.entries.empty();
}

void MetaCore::put_root(job::Transaction& store, const Superblock& superblock) {
  InodeRecord root;
  Attributes& a = root.attributes;
  a.handle = kRootHandle;
  a.type = FileType::kDirectory;
  a.mode = 01777;  // every user may begin; the owner narrows it by chmod
  a.link_count = 2;
  a.atime = a.mtime = a.ctime = a.btime = superblock.made;
  a.version = 1;
  root.parent = kRootHandle;
  store.put(inode_key(kRootHandle), encoded(root));
  store.put(global_key(kSuperblock), encoded(superblock));
}

job::Task<Result<void>> MetaCore::open_store() {
  job::Transaction transaction = store_.begin();
  auto read = co_await transaction.get(global_key(kSuperblock));
  if (read.status != Errc::kOk) co_return Error(read.status, "superblock of the meta store");
  Superblock superblock;
  if (read.value) {
    SPATE_CO_TRY(superblock, decode_record<Superblock>(*read.value));
    if (superblock.fs != options_.fs || superblock.shard != options_.shard) {
      co_return Error::told(Errc::kWrongFileSystem, "the meta store is of file system " + hex(superblock.fs) +
                                                        ", shard " + std::to_string(superblock.shard) +
                                                        "; spate.toml says " + hex(options_.fs) + ", shard " +
                                                        std::to_string(options_.shard));
    }
  } else {
    SPATE_CO_TRY(const bool empty, co_await is_empty(transaction));
    if (!empty) co_return Error(Errc::kCorrupt, "the meta store has records but no superblock");
    if (!options_.make_store) {
      co_return Error(Errc::kNotFound, "the meta store holds no name space: was it emptied?");
    }
    superblock = {options_.fs, options_.shard, clock().wall(), random_.next(), options_.name_hash_bits};
    put_root(transaction, superblock);
    const auto done = co_await transaction.commit(trove::Durability::kMachine);
    if (done.status != Errc::kOk) co_return Error(done.status, "first commit of the meta store");
    SPATE_LOG("server/meta", info, "new file system made fs={}", hex(options_.fs));
  }
  name_hash_ = NameHash{superblock.name_seed, superblock.name_bits};
  co_return {};
}

}  // namespace spate::meta
