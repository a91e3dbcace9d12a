// SPDX-License-Identifier: Apache-2.0
// `spate cp spate:/from spate:/to`: the io servers copy.
#include <optional>
#include <unordered_map>
#include <vector>

#include "tools/copy_walk.h"
#include "tools/paged_directory.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

constexpr std::size_t kCopiesAtOnce = 16;

/// Most bytes of one request, so that progress is visible.
constexpr std::uint64_t kSpanBytes = 128U << 20U;
/// Holes shorter than this are left to the io servers, which keep them.
constexpr std::uint64_t kLeastSkip = 16U << 20U;

/// A directory that the walk is in.
struct CopiedFolder : CopyLevel {
  explicit CopiedFolder(const Attributes& its_attributes)
      : attributes(its_attributes), source(its_attributes.handle, false) {}
  Attributes attributes;
  PagedDirectory source;
  std::optional<Attributes> copy;  // none in a dry run
};

struct Within : CopyWalk {
  std::unordered_map<Handle, wire::NamePath> linked;  // files with several names: where the copy of each is first
  std::uint64_t made = 0;  // handle of the first directory that the copy made: it must not be copied into itself
  std::vector<CopiedFolder> levels;
  Within(client::Client& its_client, CopyRun& its_run) : CopyWalk(its_client, its_run, kCopiesAtOnce) {}
};

/// An object and the name of its copy: paths from the root for messages, and the places of both. Below the directory
/// that the user named, a place is a directory's handle and a name in it, so that no link that somebody makes can
/// redirect it.
struct Pair {
  std::string from;
  std::string to;
  wire::NamePath source;
  wire::NamePath place;
  bool inside = false;  // below the destination
};

Destination destination_of(const Pair& pair) { return Destination{pair.place, "spate:" + pair.from, pair.to}; }

/// How to make a file. A name that the user gave may be a link.
Destination destination_of_file(const Pair& pair) {
  Destination destination = destination_of(pair);
  if (!pair.inside) destination.where.flags |= wire::NamePath::kFollowLast;
  return destination;
}

wire::NewAttributes attributes_of(const Attributes& a) { return attributes_for_copy(owner_of(a)); }

/// Checks that source and destination differ, before the destination is opened, which truncates it.
job::Task<Result<void>> check_other(Within& within, const Pair& pair, Handle source) {
  const Destination destination = destination_of_file(pair);
  auto there = co_await within.client.lookup(destination.where);
  if (!there || there->attributes.handle != source) co_return Result<void>();
  co_return Error::told(Errc::kInvalidArgument, "spate:" + pair.from + " and spate:" + pair.to + " are the same file");
}

/// The next data at or after `offset`, up to a long hole or the limit of one request. Nothing: there are only holes up
/// to the end.
job::Task<Result<std::optional<client::CopySpan>>> next_span(client::File& source, std::uint64_t offset) {
  constexpr std::uint32_t kRanges = 256;
  const std::uint64_t size = source.attributes().size;
  while (offset < size) {
    SPATE_CO_TRY(const client::DataMap map, co_await source.data_map(offset, kRanges));
    const std::uint64_t known = std::max(map.known_to(), offset + 1);
    const std::uint64_t data = map.next_data(offset);
    if (data >= std::min(known, map.file_size())) {
      if (known >= map.file_size()) break;
      offset = known;
      continue;
    }
    const std::uint64_t most = std::min(data + kSpanBytes, known);
    std::uint64_t end = map.next_hole(data);
    for (std::uint64_t next = end; end < most && next - data < kSpanBytes;) {
      next = map.next_data(end);
      if (next <= end || next >= map.file_size() || next - end >= kLeastSkip) break;
      end = map.next_hole(next);
    }
    co_return client::CopySpan{data, data, std::min(std::max(end, data + 1), most) - data};
  }
  co_return std::optional<client::CopySpan>();
}

/// Copies all data of `source` to `target`, which is empty.
job::Task<Result<void>> copy_spans(Within& within, client::File& source, client::File& target) {
  const Attributes& known = source.attributes();
  const bool sparse = known.size_known && known.allocated_bytes < known.size;
  std::optional<client::CopySpan> span = client::CopySpan{0, 0, kSpanBytes};
  std::uint64_t end = 0;
  for (bool more = true; more;) {
    if (sparse) {
      SPATE_CO_TRY(span, co_await next_span(source, end));
      if (!span) break;
    }
    SPATE_CO_TRY(const std::uint64_t copied, co_await target.copy_from(source, *span));
    within.run.progress.bytes += copied;
    end = span->from + copied;
    more = copied == span->size;
    span = client::CopySpan{end, end, kSpanBytes};
  }
  if (!sparse || span || end >= known.size) co_return Result<void>();
  auto cut = co_await target.truncate(known.size);  // a hole at the end
  co_return cut;
}

job::Task<Result<void>> copy_opened(Within& within, const Pair& pair, const Attributes& a, client::File& source) {
  client::NewObject object;
  object.attributes = attributes_of(a);
  // The layout of the source lets each server copy its own part.
  object.layout.strip_bytes = source.layout().strip_bytes;
  object.layout.distribution = source.layout().distribution;
  for (const Slot& slot : source.layout().slots) object.layout.targets.push_back(slot.targets.front());
  const Destination destination = destination_of_file(pair);
  SPATE_CO_TRY(auto target, co_await create_file(within.client, destination, object));
  const Owned owner = owner_of(a);
  auto done = co_await adopt_attributes(within.client, *target, owner);
  if (done) done = co_await copy_spans(within, source, *target);
  if (done) done = co_await lend_rights_again(within.client, *target, owner);
  client::CloseOptions closing;
  if (done) {  // otherwise it must not look like a complete copy
    closing.mtime = a.mtime;
    closing.atime = a.atime;
  }
  auto closed = co_await target->close(std::move(closing));
  if (done && !closed) done = std::move(closed).error();
  if (!done) co_return std::move(done).error().within("spate:" + pair.from + " to spate:" + pair.to);
  co_return done;
}

job::Task<Result<bool>> is_left_out(Within& within, const Pair& pair, const Attributes& a) {
  const Destination destination = destination_of_file(pair);
  const CopyState source{a.size, a.mtime};
  const auto left_out = co_await within.is_left_out(destination, source);
  co_return left_out;
}

job::Task<Result<void>> copy_file(Within& within, Pair pair, Attributes a) {
  SPATE_CO_TRY(const bool left_out, co_await is_left_out(within, pair, a));
  if (left_out) co_return Result<void>();
  SPATE_CO_TRY(std::ignore, co_await check_other(within, pair, a.handle));
  // Opens the file that was examined by its handle, even if another file has its name now.
  wire::NamePath file;
  file.start = a.handle;
  auto source = co_await within.client.open(file, wire::kOpenRead);
  if (!source) co_return std::move(source).error().within("spate:" + pair.from);
  auto done = co_await copy_opened(within, pair, a, **source);
  auto closed = co_await (*source)->close();
  if (done && !closed) done = std::move(closed).error().within("spate:" + pair.from);
  co_return done;
}

job::Task<Result<void>> enter_directory(Within& within, const Pair& pair, const Attributes& a) {
  if (!within.run.recursive)
    co_return Error::told(Errc::kInvalidArgument, "spate:" + pair.from + " is a directory: use -r");
  if (a.handle.value == within.made) co_return Result<void>();
  CopiedFolder level(a);
  if (within.run.begin("spate:" + pair.from, "spate:" + pair.to)) {
    wire::NewAttributes attributes = attributes_of(a);
    attributes.mode |= 0700U;  // until its entries are there
    const Destination destination = destination_of(pair);
    SPATE_CO_TRY(level.copy, co_await make_or_find_directory(within.client, destination, attributes));
    if (within.made == 0) within.made = level.copy->handle.value;
  }
  within.enter(level, pair.from, pair.to);
  within.levels.push_back(std::move(level));
  co_return Result<void>();
}

/// Sets the attributes of a directory after everything has been put into it.
job::Task<void> finish_directory(Within& within, const CopiedFolder& level) {
  auto all = co_await within.slots.acquire(kCopiesAtOnce);  // waits until everything has been put into it
  if (within.run.errors.ended()) co_return;
  const Attributes& a = level.attributes;
  wire::SetattrRequest request = owner_and_mode(*level.copy, owner_of(a));
  request.mtime = a.mtime;
  request.atime = a.atime;
  auto set = co_await within.client.setattr(request);
  if (!set) within.run.errors.tell(std::move(set).error().within("spate:" + within.to));
}

/// The next entry of the directory that the walk is in.
Pair next_pair(const Within& within, CopiedFolder& level) {
  const std::string name = level.source.take().name;
  Pair below{join_path(within.from, name), join_path(within.to, name), name_in(level.source.handle(), name), {}, true};
  below.place = level.copy ? name_in(level.copy->handle, name) : client::path_from_root(below.to, false);
  return below;
}

/// Makes a further name of a copy that exists already, or is being made.
job::Task<Result<void>> link_copy(Within& within, const wire::NamePath& existing, const Pair& pair,
                                  const Attributes& a) {
  auto all = co_await within.slots.acquire(kCopiesAtOnce);  // waits until its first name exists
  SPATE_CO_TRY(const bool left_out, co_await is_left_out(within, pair, a));
  if (left_out) co_return Result<void>();
  const Destination destination = destination_of(pair);
  const auto make = [&] { return within.client.link(existing, destination.where); };
  auto made = co_await make_anew(within.client, destination, make);
  co_return made;
}

job::Task<Result<void>> copy_symlink(Within& within, const Pair& pair, const wire::ObjectReply& object) {
  wire::NewAttributes attributes = attributes_of(object.attributes);
  attributes.mtime = object.attributes.mtime;
  SPATE_CO_TRY(const bool left_out, co_await is_left_out(within, pair, object.attributes));
  if (left_out) co_return Result<void>();
  const Destination destination = destination_of(pair);
  const auto make = [&] { return within.client.symlink(destination.where, object.target, attributes); };
  auto made = co_await make_anew(within.client, destination, make);
  co_return made;
}

job::Task<Result<void>> begin_copy(Within& within, Pair pair, const Attributes& a) {
  if (a.link_count > 1) {
    const auto [known, fresh] = within.linked.try_emplace(a.handle, pair.place);
    if (!fresh) {
      const wire::NamePath first = known->second;
      auto made = co_await link_copy(within, first, pair, a);
      co_return made;
    }
  }
  auto copy = copy_file(within, std::move(pair), a);
  co_await within.begin_file(1, std::move(copy));
  co_return Result<void>();
}

job::Task<Result<void>> copy_object(Within& within, Pair pair) {
  auto object = co_await within.client.stat(pair.source);
  if (!object) co_return std::move(object).error().within("spate:" + pair.from);
  const Attributes& a = object->attributes;
  Result<void> copied;
  if (a.type == FileType::kDirectory) {
    copied = co_await enter_directory(within, pair, a);
  } else if (a.type == FileType::kSymlink) {
    copied = co_await copy_symlink(within, pair, *object);
  } else if (a.type == FileType::kRegular) {
    copied = co_await begin_copy(within, std::move(pair), a);
  } else {
    copied = Error::told(Errc::kNotSupported, "spate:" + pair.from + ": neither file, directory nor link");
  }
  co_return copied;
}

/// Uses a stack of its own, since a user may nest directories to any depth.
job::Task<void> copy_tree(Within& within, Pair pair) {
  auto copy = copy_object(within, std::move(pair));
  co_await within.attempt(std::move(copy));
  while (!within.levels.empty()) {
    CopiedFolder& level = within.levels.back();
    within.return_to(level);
    if (level.source.has_next() && !within.run.errors.ended()) {
      copy = copy_object(within, next_pair(within, level));
      co_await within.attempt(std::move(copy));  // may enter a directory
    } else if (!level.source.all_listed() && !within.run.errors.ended()) {
      co_await within.list_more(level.source);
    } else {
      if (level.copy) co_await finish_directory(within, level);
      within.levels.pop_back();
    }
  }
}

}  // namespace

job::Task<void> copy_within(client::Client& client, const CopyList& list, CopyRun& run) {
  Within within(client, run);
  for (const CopyParams& params : list) {
    within.made = 0;
    Pair pair{params.from, params.to, client::path_from_root(params.from, !run.recursive),
              client::path_from_root(params.to, false), params.inside};
    co_await copy_tree(within, std::move(pair));
  }
  co_await within.gate.close();
}

}  // namespace spate::tools
