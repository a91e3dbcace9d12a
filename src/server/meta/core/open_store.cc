// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/open_store.h"

#include "log/log.h"
#include "server/meta/store/records.h"

namespace spate::meta {
namespace {

constexpr std::string_view kSuperblock = "superblock";

std::string hex(FsId id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id.value));
  return text;
}

job::Task<Result<bool>> is_empty(job::Transaction& store) {
  trove::KeyRange everything;
  everything.end = {std::byte{0xFF}};
  const auto read = co_await store.range(everything);
  if (read.status != Errc::kOk) co_return read.status;
  co_return read.entries.empty();
}

void put_root(job::Transaction& store, const Superblock& superblock) {
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

}  // namespace

job::Task<Result<NameHash>> open_store(job::KeyvalContext& store, const MetaOptions& options, Random& random) {
  job::Transaction transaction = store.begin();
  auto read = co_await transaction.get(global_key(kSuperblock));
  if (read.status != Errc::kOk) co_return Error(read.status, "superblock of the meta store");
  Superblock superblock;
  if (read.value) {
    SPATE_CO_TRY(superblock, decode_record<Superblock>(*read.value));
    if (superblock.fs != options.fs || superblock.shard != options.shard) {
      co_return Error::told(Errc::kWrongFileSystem, "the meta store is of file system " + hex(superblock.fs) +
                                                        ", shard " + std::to_string(superblock.shard) +
                                                        "; spate.toml says " + hex(options.fs) + ", shard " +
                                                        std::to_string(options.shard));
    }
  } else {
    SPATE_CO_TRY(const bool empty, co_await is_empty(transaction));
    if (!empty) co_return Error(Errc::kCorrupt, "the meta store has records but no superblock");
    if (!options.make_store) {
      co_return Error(Errc::kNotFound, "the meta store holds no name space: was it emptied?");
    }
    superblock = {options.fs, options.shard, store.executor().clock().wall(), random.next(), options.name_hash_bits};
    put_root(transaction, superblock);
    const auto done = co_await transaction.commit(trove::Durability::kMachine);
    if (done.status != Errc::kOk) co_return Error(done.status, "first commit of the meta store");
    SPATE_LOG("server/meta", info, "new file system made fs={}", hex(options.fs));
  }
  co_return NameHash{superblock.name_seed, superblock.name_bits};
}

}  // namespace spate::meta
