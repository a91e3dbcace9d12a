// SPDX-License-Identifier: Apache-2.0
#include "server/meta/store/records.h"

#include <algorithm>
#include <functional>

#include "server/meta/store/acl.h"
#include "wire/archive.h"

namespace spate::meta {
namespace {

using wire::Reader;
using wire::Writer;

// Name, newest version and fields of each record. A is a Writer or a Reader. Fields of later versions are appended, and
// only read from records of those versions.
template <typename Record>
struct Format;

/// The base of a record's format. All versions of the record have the same fields, a later one more possible values.
struct SameFields {
  template <typename A, typename R>
  static void later_fields(A& /*a*/, R& /*r*/, std::uint8_t /*version*/) {}
};

template <>
struct Format<Superblock> {
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::string_view kName = "superblock";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.fs, r.shard, r.made, r.name_seed, r.name_bits);
  }
  static bool valid(const Superblock& r) { return r.fs && r.name_bits >= 1 && r.name_bits <= 63; }
};

template <>
struct Format<ClusterRecord> : SameFields {
  static constexpr std::uint8_t kVersion = 2;
  /// The map itself has another form with racks. An older server then reports that the record is too new.
  static std::uint8_t version_for(const ClusterRecord& r) { return r.map.has_racks() ? 2 : 1; }
  static constexpr std::string_view kName = "cluster";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.map, r.added, r.next_server);
  }
  static bool valid(const ClusterRecord& r) {
    const auto in_map = [&r](ServerId id) { return r.map.find_server(id) != nullptr; };
    const bool ascending = std::ranges::adjacent_find(r.added, std::ranges::greater_equal()) == r.added.end();
    const ServerId last = r.map.servers.empty() ? ServerId() : r.map.servers.back().id;
    return ascending && std::ranges::all_of(r.added, in_map) && last.value < r.next_server;
  }
};

template <>
struct Format<RevokedKeysRecord> {
  static constexpr std::uint8_t kVersion = 2;
  static std::uint8_t version_for(const RevokedKeysRecord& r) { return r.ends.empty() ? 1 : 2; }
  static constexpr std::string_view kName = "revoked keys";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.keys);
  }
  template <typename A, typename R>
  static void later_fields(A& a, R& r, std::uint8_t version) {
    if (version >= 2) a(r.ends);
  }
  static bool valid(const RevokedKeysRecord& r) {
    if (!r.ends.empty() && r.ends.size() != r.keys.size()) return false;
    const auto disorder = std::ranges::adjacent_find(r.keys, std::ranges::greater_equal(), &wire::RevokedKey::id);
    return disorder == r.keys.end() && r.keys.size() <= wire::kMaxRevoked;
  }
};

/// Whether no range is empty, and each begins after the end of the one before.
bool are_ascending(const std::vector<NumberRange>& ranges) {
  std::uint64_t end = 0;
  for (const NumberRange& range : ranges) {
    if (range.begin < end || range.end <= range.begin) return false;
    end = range.end;
  }
  return true;
}

template <>
struct Format<CounterRecord> {
  static constexpr std::uint8_t kVersion = 2;
  static std::uint8_t version_for(const CounterRecord& r) { return r.skipped.empty() ? 1 : 2; }
  static constexpr std::string_view kName = "counter";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.next);
  }
  template <typename A, typename R>
  static void later_fields(A& a, R& r, std::uint8_t version) {
    if (version >= 2) a(r.skipped);
  }
  static bool valid(const CounterRecord& r) {
    const std::uint64_t end = r.skipped.empty() ? 0 : r.skipped.back().end;
    return are_ascending(r.skipped) && end <= r.next && r.skipped.size() <= CounterRecord::kMaxSkipped;
  }
};

template <>
struct Format<DataGroup> {
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::string_view kName = "data group";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r);
  }
};

bool valid_type(FileType type) { return type >= FileType::kRegular && type <= FileType::kBlockDevice; }

bool is_mirrored(const Layout& layout) { return layout.redundancy == Redundancy::kMirror; }
bool valid_replicas(std::uint32_t replicas) { return replicas >= 1 && replicas <= kMaxReplicas; }

template <>
struct Format<InodeRecord> {
  static constexpr std::uint8_t kVersion = 9;
  static constexpr std::uint8_t kSecondParentVersion = 8;
  static constexpr std::uint8_t kParentVersion = 7;
  static std::uint8_t version_for(const InodeRecord& r) {
    if (r.hints.min_copies) return kVersion;
    if (r.second_parent) return kSecondParentVersion;
    return !r.is_directory() && r.parent ? kParentVersion : version_without_parent(r);
  }
  /// Few objects need the fields of later versions. The records of all others keep their short form. A layout that
  /// version 3 does not know gives a record version 4, too, so that an older server reports that the record is too new.
  static std::uint8_t version_without_parent(const InodeRecord& r) {
    const bool striped = !r.layout || r.layout->distribution.kind == DistributionSpec::kSimpleStripe;
    if (r.hints.replicas || (r.layout && is_mirrored(*r.layout))) return 6;
    if (r.writers > 1) return 5;
    if (r.hints.distribution || !striped) return 4;
    if (r.written_by_users) return 3;
    return r.acl.empty() && r.default_acl.empty() ? 1 : 2;
  }
  static constexpr std::string_view kName = "inode";
  // This list is not shared with wire's similar one, which may change without the stored form.
  template <typename A, typename R>
  static void attributes(A& a, R& v) {
    a(v.handle, v.type, v.mode, v.uid, v.gid, v.project, v.link_count, v.device, v.size, v.allocated_bytes, v.atime,
      v.mtime, v.ctime, v.btime, v.version, v.size_known, v.change_sum);
  }
  template <typename A, typename R>
  static void later_fields(A& a, R& r, std::uint8_t version) {
    if (version < kParentVersion) return appended(a, r, version);
    // Most objects have a parent. So it does not bring the fields of versions 2 to 6, which few objects need.
    std::uint8_t otherwise = version_without_parent(r);
    a(otherwise);
    if (otherwise < kParentVersion) appended(a, r, otherwise);
    if (version >= kSecondParentVersion) a(r.second_parent);
    if (version >= kVersion) a(r.hints.min_copies);
    if constexpr (!std::is_const_v<R>) {
      if (otherwise != version_without_parent(r)) a.decoder().fail();
    }
  }
  template <typename A, typename R>
  static void appended(A& a, R& r, std::uint8_t version) {
    if (version >= 2) a(r.acl, r.default_acl);
    if (version >= 3) a(r.written_by_users);
    if (version >= 4) a(r.hints.distribution);
    if (version >= 5) a(r.writers);
    if (version >= 6) a(r.hints.replicas);
  }
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    attributes(a, r.attributes);
    a(r.layout, r.target, r.parent, r.entries_version);
    a(r.hints.strip_bytes, r.hints.strip_count, r.hints.first_target);
    bool one_writer = r.writers == 1;
    a(r.write_opens, one_writer, r.truncating, r.keep_mtime, r.write_generation, r.truncate_generation);
    if constexpr (!std::is_const_v<R>) r.writers = one_writer ? 1 : 0;
    a(r.xattr_count, r.xattr_bytes);
  }
  static bool valid(const InodeRecord& r) {
    return r.handle() && valid_type(r.attributes.type) && r.attributes.mode <= 07777 &&
           r.is_regular() == r.layout.has_value() && (r.parent || !r.is_directory()) &&
           (!r.second_parent || (r.parent && !r.is_directory())) && check_acl(r.acl) && check_acl(r.default_acl) &&
           valid_replicas(r.hints.replicas.value_or(1)) && valid_replicas(r.hints.min_copies.value_or(1));
  }
};

template <>
struct Format<EntryRecord> {
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::string_view kName = "entry";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.handle, r.type);
  }
  static bool valid(const EntryRecord& r) { return r.handle && valid_type(r.type); }
};

template <>
struct Format<SessionRecord> {
  static constexpr std::uint8_t kVersion = 2;
  static std::uint8_t version_for(const SessionRecord& r) { return r.user_key ? 2 : 1; }
  static constexpr std::string_view kName = "session";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.client, r.epoch, r.released_epoch, r.state, r.credential, r.description, r.opened, r.ended);
  }
  template <typename A, typename R>
  static void later_fields(A& a, R& r, std::uint8_t version) {
    if (version >= 2) a(r.user_key);
  }
  static bool valid(const SessionRecord& r) {
    return r.client && r.state >= SessionState::kOpen && r.state <= SessionState::kExpired &&
           r.released_epoch <= r.epoch;
  }
};

template <>
struct Format<OpenRecord> {
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::string_view kName = "open";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.readers, r.writers);
  }
  static bool valid(const OpenRecord& r) { return r.readers + std::uint64_t{r.writers} > 0; }
};

template <>
struct Format<RemovalRecord> : SameFields {
  static constexpr std::uint8_t kVersion = 2;
  /// An older server must not take the number of a group for that of a target.
  static std::uint8_t version_for(const RemovalRecord& r) { return is_mirrored(r.layout) ? 2 : 1; }
  static constexpr std::string_view kName = "removal";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.layout, r.since);
  }
  static bool valid(const RemovalRecord&) { return true; }
};

template <>
struct Format<TruncateIntent> {
  static constexpr std::uint8_t kVersion = 3;
  static std::uint8_t version_for(const TruncateIntent& r) {
    if (is_mirrored(r.layout)) return 3;
    return r.asker.client || r.before ? 2 : 1;
  }
  static constexpr std::string_view kName = "truncate intent";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.size, r.generation, r.when, r.layout);
  }
  template <typename A, typename R>
  static void later_fields(A& a, R& r, std::uint8_t version) {
    if (version >= 2) a(r.asker.client, r.asker.epoch, r.asker.slot, r.asker.sequence, r.asker.opened, r.before);
  }
  static bool valid(const TruncateIntent& r) {
    return r.size <= kMaxFileBytes && r.before.value_or(0) <= kMaxFileBytes;
  }
};

template <>
struct Format<UnsettledRecord> {
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::string_view kName = "unsettled";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.since);
  }
};

template <>
struct Format<AnswerRecord> {
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::string_view kName = "answer";
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.sequence, r.op, r.status, r.context, r.body, r.truncates);
  }
  static bool valid(const AnswerRecord& r) { return r.status == Errc::kOk || r.body.empty(); }
};

struct QueueFields {
  template <typename A, typename R>
  static void fields(A& a, R& r) {
    a(r.epoch, r.last, r.ranges);
  }
  static bool valid(const QueueRecord& r) { return are_ascending(r.ranges) && r.ranges.size() <= wire::kMostRanges; }
};

template <>
struct Format<QueueRecord> : QueueFields {
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::string_view kName = "queue";
};

template <typename Record>
void write_record(const Record& record, Bytes& out) {
  static constexpr std::size_t kUsual = 256;  // an inode with four slots and more
  out.clear();
  out.reserve(kUsual);
  Writer writer(out);
  if constexpr (requires { Format<Record>::version_for(record); }) {
    const std::uint8_t version = Format<Record>::version_for(record);
    writer(version);
    Format<Record>::fields(writer, record);
    Format<Record>::later_fields(writer, record, version);
  } else {
    writer(Format<Record>::kVersion);
    Format<Record>::fields(writer, record);
  }
}

}  // namespace

bool CounterRecord::is_given(std::uint64_t number) const {
  const auto has = [number](const NumberRange& range) { return range.begin <= number && number < range.end; };
  return number < next && std::ranges::none_of(skipped, has);
}

bool QueueRecord::take(std::uint64_t number) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (number < ranges[i].begin || number >= ranges[i].end) continue;
    ranges[i].begin = number + 1;
    const bool used_up = ranges[i].begin == ranges[i].end;
    ranges.erase(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(used_up ? i + 1 : i));
    return true;
  }
  return false;
}

void encode_record(const Superblock& record, Bytes& out) { write_record(record, out); }
void encode_record(const ClusterRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const CounterRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const DataGroup& record, Bytes& out) { write_record(record, out); }
void encode_record(const RevokedKeysRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const InodeRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const EntryRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const SessionRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const OpenRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const RemovalRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const TruncateIntent& record, Bytes& out) { write_record(record, out); }
void encode_record(const UnsettledRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const AnswerRecord& record, Bytes& out) { write_record(record, out); }
void encode_record(const QueueRecord& record, Bytes& out) { write_record(record, out); }

template <typename Record>
Result<Record> decode_record(ByteView bytes) {
  using F = Format<Record>;
  Reader reader(bytes);
  std::uint8_t version = 0;
  reader(version);
  if (version > F::kVersion) {
    return Error(Errc::kFormatTooNew, std::string(F::kName) + " record of version " + std::to_string(version));
  }
  Record record;
  if (version == 0) reader.decoder().fail();
  F::fields(reader, record);
  if constexpr (requires { F::version_for(record); }) {
    F::later_fields(reader, record, version);
    if (version != F::version_for(record)) reader.decoder().fail();
  }
  SPATE_TRY(std::ignore, reader.decoder().finish(F::kName));
  if constexpr (requires { F::valid(record); }) {
    if (!F::valid(record)) return Error(Errc::kCorrupt, std::string(F::kName) + " record: out of range");
  }
  return record;
}

template Result<Superblock> decode_record(ByteView);
template Result<ClusterRecord> decode_record(ByteView);
template Result<CounterRecord> decode_record(ByteView);
template Result<DataGroup> decode_record(ByteView);
template Result<RevokedKeysRecord> decode_record(ByteView);
template Result<InodeRecord> decode_record(ByteView);
template Result<EntryRecord> decode_record(ByteView);
template Result<SessionRecord> decode_record(ByteView);
template Result<OpenRecord> decode_record(ByteView);
template Result<RemovalRecord> decode_record(ByteView);
template Result<TruncateIntent> decode_record(ByteView);
template Result<UnsettledRecord> decode_record(ByteView);
template Result<AnswerRecord> decode_record(ByteView);
template Result<QueueRecord> decode_record(ByteView);

}  // namespace spate::meta
