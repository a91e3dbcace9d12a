// SPDX-License-Identifier: Apache-2.0
// Fuzzer: gives any bytes to every decoder of records and keys. A record or key that decodes must encode to the same
// bytes. The first byte chooses the decoder.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "server/meta/store/access.h"
#include "server/meta/store/acl.h"
#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"

namespace spate::meta {
namespace {

template <typename Record>
void check(ByteView input) {
  const auto record = decode_record<Record>(input);
  if (!record) {
    SPATE_CHECK(record.code() == Errc::kCorrupt || record.code() == Errc::kFormatTooNew);
    return;
  }
  const auto again = decode_record<Record>(encoded(*record));
  SPATE_CHECK(again && *again == *record);
}

/// A decoded key must encode to the same key. The handle of an entry's key, which no decoder returns, is read directly.
void check_keys(ByteView key) {
  const auto same = [key](const StoreKey& again) { SPATE_CHECK(std::ranges::equal(again.view(), key)); };
  const auto id = parse_id_key(key);
  if (const auto entry = parse_entry_key(key); entry && entry->name.size() <= kMaxNameBytes) {
    same(entry_key(Handle(*id), entry->hash, entry->name));
  }
  if (const auto name = parse_xattr_key(key); name && name->size() <= kMaxNameBytes)
    same(xattr_key(Handle(*id), *name));
  if (const auto open = parse_open_key(key)) same(open_key(open->handle, open->client, open->epoch));
}

/// An access control list as a client sets it.
void check_acl_value(ByteView input) {
  const auto acl = decode_acl(input);
  if (!acl) return;
  SPATE_CHECK(acl->size() <= kMaxAclEntries);
  const auto again = decode_acl(encode_acl(*acl));
  SPATE_CHECK(again && *again == *acl);
  if (!check_acl(*acl) || acl->empty()) return;
  InodeRecord inode;
  set_access_acl(inode, *acl);
  SPATE_CHECK((inode.attributes.mode & ~0777U) == 0);
}

void run(std::uint8_t kind, ByteView input) {
  switch (kind) {
    case 0: return check<Superblock>(input);
    case 1: return check<CounterRecord>(input);
    case 2: return check<InodeRecord>(input);
    case 3: return check<EntryRecord>(input);
    case 4: return check<SessionRecord>(input);
    case 5: return check<OpenRecord>(input);
    case 6: return check<RemovalRecord>(input);
    case 7: return check<TruncateIntent>(input);
    case 8: return check<AnswerRecord>(input);
    case 9: return check<UnsettledRecord>(input);
    case 10: return check_keys(input);
    case 11: return check_acl_value(input);
    case 12: return check<ClusterRecord>(input);
    case 13: return check<RevokedKeysRecord>(input);
    case 14: return check<DataGroup>(input);
    case 15: return check<QueueRecord>(input);
    default: return;
  }
}

}  // namespace
}  // namespace spate::meta

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  spate::meta::run(data[0], {reinterpret_cast<const std::byte*>(data) + 1, size - 1});
  return 0;
}
