// SPDX-License-Identifier: Apache-2.0
// `spate cp spate:/from spate:/to`: the io servers copy.
#include <unistd.h>

#include <unordered_map>

#include "job/semaphore.h"
#include "tools/copy.h"
#include "tools/make_anew.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

constexpr std::size_t kCopiesAtOnce = 16;

/// One run: what its coroutines share. Lives on the frame of copy_within().
struct Within {
  client::Client& client;
  const bool recursive;
  job::Gate gate;
  job::Semaphore slots;
  Result<void> first;  // the first failure
  std::unordered_map<Handle, std::string> linked;  // files of several names: the name that each copy has first
  std::uint64_t made = 0;  // handle of the first directory that was made: it is not copied into itself
  Within(client::Client& c, bool with_trees)
      : client(c), recursive(with_trees), gate(c.cluster().executor()), slots(c.cluster().executor(), kCopiesAtOnce) {}
};

wire::NewAttributes attributes_of(const Attributes& a) {
  wire::NewAttributes attributes;
  attributes.mode = a.mode;
  if (::geteuid() == 0) {
    attributes.uid = a.uid;
    attributes.gid = a.gid;
  }
  return attributes;
}

/// Before it is opened, which cuts it.
job::Task<Result<void>> check_other(Within& within, const std::string& to, Handle source) {
  auto there = co_await within.client.lookup(client::path_from_root(to));
  if (there && there->attributes.handle == source) co_return Error(Errc::kInvalidArgument, "the same file as spate:" + to);
  co_return Result<void>();
}

job::Task<Result<void>> copy_file(Within& within, const std::string& from, const std::string& to, const Attributes& a) {
  SPATE_CO_TRY(std::ignore, co_await check_other(within, to, a.handle));
  SPATE_CO_TRY(auto source, co_await within.client.open(client::path_from_root(from, false), wire::kOpenRead));
  client::NewObject object;
  object.attributes = attributes_of(a);
  // Side by side with the source, so that each server copies its own part.
  object.layout.strip_bytes = source->layout().strip_bytes;
  for (const Slot& slot : source->layout().slots) object.layout.targets.push_back(slot.targets.front());
  const std::uint8_t flags = wire::kOpenWrite | wire::kOpenTruncate;
  auto target = co_await within.client.create(client::path_from_root(to), flags, object);
  Result<void> done;
  if (!target) {
    done = std::move(target).error();
  } else {
    auto copied = co_await (*target)->copy_from(*source, {0, 0, kMaxFileBytes});
    if (!copied) done = std::move(copied).error();
  }
  if (target) {
    client::CloseOptions closing;
    closing.mtime = a.mtime;
    closing.atime = a.atime;
    auto closed = co_await (*target)->close(closing);
    if (done && !closed) done = std::move(closed).error();
  }
  auto closed = co_await source->close();
  if (done && !closed) done = std::move(closed).error();
  co_return done;
}

job::Task<void> copy_file_in_slot(Within& within, std::string from, std::string to, Attributes a) {
  auto units = co_await within.slots.acquire(1);
  auto copied = co_await copy_file(within, from, to, a);
  if (!copied && within.first) within.first = std::move(copied).error().within("spate:" + from);
}

job::Task<Result<void>> copy_tree(Within& within, std::string from, std::string to);

job::Task<Result<void>> copy_entries(Within& within, const std::string& from, const std::string& to, Handle directory) {
  wire::ReaddirRequest request;
  request.handle = directory;
  for (bool end = false; !end;) {
    SPATE_CO_TRY(auto page, co_await within.client.readdir(request));
    for (const wire::DirectoryEntry& entry : page.entries) {
      request.cookie = entry.cookie;
      SPATE_CO_TRY(std::ignore, co_await copy_tree(within, join_path(from, entry.name), join_path(to, entry.name)));
    }
    end = page.end || page.entries.empty();
  }
  co_return Result<void>();
}

job::Task<Result<void>> copy_directory(Within& within, const std::string& from, const std::string& to, const Attributes& a) {
  if (!within.recursive) co_return Error(Errc::kInvalidArgument, "spate:" + from + " is a directory: use -r");
  if (a.handle.value == within.made) co_return Result<void>();
  wire::NewAttributes attributes = attributes_of(a);
  attributes.mode |= 0700U;  // until its entries are there
  auto made = co_await within.client.mkdir(client::path_from_root(to), attributes);
  Handle handle;
  if (made) {
    handle = made->handle;
  } else {
    if (made.code() != Errc::kExists) co_return std::move(made).error().within("spate:" + to);
    SPATE_CO_TRY(auto there, co_await within.client.lookup(client::path_from_root(to)));
    handle = there.attributes.handle;
  }
  if (within.made == 0) within.made = handle.value;
  SPATE_CO_TRY(std::ignore, co_await copy_entries(within, from, to, a.handle));
  auto all = co_await within.slots.acquire(kCopiesAtOnce);  // nothing is put into it any more
  wire::SetattrRequest request;
  request.where.start = handle;
  request.mode = a.mode;
  request.mtime = a.mtime;
  request.atime = a.atime;
  auto set = co_await within.client.setattr(request);
  if (!set) co_return std::move(set).error().within("spate:" + to);
  co_return Result<void>();
}

/// A further name of a copy that is there already, or on its way.
job::Task<Result<void>> link_copy(Within& within, const std::string& first, const std::string& to) {
  auto all = co_await within.slots.acquire(kCopiesAtOnce);  // its first name exists by now
  const wire::NamePath existing = client::path_from_root(first, false);
  const wire::NamePath where = client::path_from_root(to, false);
  const auto make = [&] { return within.client.link(existing, where); };
  auto made = co_await make_anew(within.client, where, make);
  if (!made) co_return std::move(made).error().within("spate:" + to);
  co_return made;
}

job::Task<Result<void>> copy_tree(Within& within, std::string from, std::string to) {
  if (!within.first) co_return within.first;
  SPATE_CO_TRY(auto object, co_await within.client.stat(client::path_from_root(from, false)));
  const Attributes& a = object.attributes;
  if (a.type == FileType::kDirectory) {
    auto copied = co_await copy_directory(within, from, to, a);
    co_return copied;
  }
  if (a.type == FileType::kSymlink) {
    wire::NewAttributes attributes = attributes_of(a);
    attributes.mtime = a.mtime;
    const wire::NamePath where = client::path_from_root(to, false);
    const auto make = [&] { return within.client.symlink(where, object.target, attributes); };
    auto made = co_await make_anew(within.client, where, make);
    if (!made) co_return std::move(made).error().within("spate:" + to);
    co_return Result<void>();
  }
  if (a.type != FileType::kRegular) co_return Error(Errc::kNotSupported, "spate:" + from + ": neither file, directory nor link");
  if (a.link_count > 1) {
    const auto [known, fresh] = within.linked.try_emplace(a.handle, to);
    if (!fresh) {
      const std::string first = known->second;
      auto made = co_await link_copy(within, first, to);
      co_return made;
    }
  }
  {
    auto room = co_await within.slots.acquire(1);  // bounds how many are spawned
  }
  job::spawn(within.gate, copy_file_in_slot(within, std::move(from), std::move(to), a));
  co_return Result<void>();
}

}  // namespace

job::Task<Result<void>> copy_within(client::Client& client, CopyWish wish) {
  Within within(client, wish.recursive);
  auto walked = co_await copy_tree(within, std::move(wish.from), std::move(wish.to));
  co_await within.gate.close();
  co_return walked ? within.first : walked;
}

}  // namespace spate::tools
