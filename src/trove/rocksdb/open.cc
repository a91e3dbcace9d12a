// SPDX-License-Identifier: Apache-2.0
// Opens the store: the format record, and the errors of an opening that fails.
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include "log/log.h"
#include "trove/rocksdb/format.h"
#include "trove/rocksdb/options.h"
#include "trove/rocksdb/read.h"
#include "trove/rocksdb/reserve.h"
#include "trove/rocksdb/rocksdb_keyval.h"
#include "trove/rocksdb/status.h"
#include "trove/rocksdb/store.h"
#include "trove/rocksdb/transaction.h"

namespace spate::trove {
namespace {

/// The store with its transactions.
class OpenStore final : public RocksdbStore {
 public:
  using RocksdbStore::RocksdbStore;
  std::unique_ptr<Transaction> begin() override { return std::make_unique<RocksdbTransaction>(*this); }
};

Error open_error(const RocksdbOptions& options, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  const auto says = [&text](std::string_view part) { return text.find(part) != std::string::npos; };
  const std::string store = "keyval store " + options.folder;
  if (status.IsIOError() && says("lock") &&
      (says("Resource temporarily unavailable") || says("lock hold by current"))) {
    return {Errc::kBusy, store + ": another spated uses this folder; stop it, or give this server a folder of its own"};
  }
  if (says("Permission denied")) {
    return {Errc::kPermissionDenied, store + ": give its folder to the user that runs spated (" + text + ")"};
  }
  if (says("No such file or directory")) {
    return {Errc::kNotFound, store + ": create the folder above it, or correct the path in spate.toml (" + text + ")"};
  }
  if (status.IsCorruption()) {
    return {Errc::kCorrupt, store + ": its files are damaged; restore them from a backup (" + text + ")"};
  }
  if (status.IsNoSpace()) return {Errc::kNoSpace, store + ": free some space on its device (" + text + ")"};
  const Errc code = errc_of(status);
  return {code == Errc::kNotFound ? Errc::kIoError : code, store + ": could not be opened (" + text + ")"};
}

Result<void> write_format(const RocksdbOptions& options, rocksdb::DB& db) {
  const std::unique_ptr<rocksdb::Iterator> any(db.NewIterator(rocksdb::ReadOptions()));
  any->SeekToFirst();
  if (any->Valid()) {
    return Error(Errc::kWrongFileSystem,
                 "keyval store " + options.folder + ": the folder holds a RocksDB store that Spate has not written");
  }
  if (!any->status().ok()) return open_error(options, any->status());
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const rocksdb::Status status =
      db.Put(synced, rocksdb::Slice(kFormatKey, sizeof kFormatKey), slice_of(format_record()));
  if (!status.ok()) return open_error(options, status);
  return {};
}

Result<void> check_format(const RocksdbOptions& options, rocksdb::DB& db) {
  std::string record;
  const rocksdb::Status status = db.Get(rocksdb::ReadOptions(), rocksdb::Slice(kFormatKey, sizeof kFormatKey), &record);
  if (status.IsNotFound()) return write_format(options, db);
  if (!status.ok()) return open_error(options, status);
  return check_format_record(as_bytes(record), options.folder);
}

/// Syncs the logs that earlier processes left. RocksDB syncs the log that it writes, but not one that it has only read.
/// Commits that are durable now must not depend on commits that are not.
Result<void> sync_old_logs(const RocksdbOptions& options) {
  rocksdb::Env* const env = options.env != nullptr ? options.env : rocksdb::Env::Default();
  rocksdb::EnvOptions how;
  how.use_mmap_writes = false;
  std::vector<std::string> names;
  rocksdb::Status status = env->GetChildren(options.folder, &names);
  for (const std::string& name : names) {
    if (!status.ok()) break;
    if (!name.ends_with(".log")) continue;
    std::unique_ptr<rocksdb::WritableFile> log;
    status = env->ReopenWritableFile(options.folder + "/" + name, &log, how);
    if (status.ok()) status = log->Sync();
  }
  std::unique_ptr<rocksdb::Directory> folder;
  if (status.ok()) status = env->NewDirectory(options.folder, &folder);
  if (status.ok()) status = folder->Fsync();
  if (!status.ok()) return open_error(options, status);
  return {};
}

}  // namespace

Result<std::unique_ptr<Keyval>> open_rocksdb(const RocksdbOptions& options) {
  SpaceReserve reserve(options.folder);
  reserve.release_if_needed();
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(rocksdb_options(options), options.folder, &raw);
  if (!status.ok()) return open_error(options, status);
  std::unique_ptr<rocksdb::DB> db(raw);
  SPATE_TRY(std::ignore, sync_old_logs(options));
  SPATE_TRY(std::ignore, check_format(options, *db));
  reserve.keep();
  SPATE_LOG("trove/rocksdb", info, "store open folder={}", options.folder);
  return std::unique_ptr<Keyval>(std::make_unique<OpenStore>(std::move(db), options, std::move(reserve)));
}

}  // namespace spate::trove
