// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/walk.h"

#include "server/meta/store/access.h"

namespace spate::meta {

using trove::ReadMode;

job::Task<Result<InodeRecord>> inode_of(Operation& operation, EntryRecord entry, ReadMode mode, Reach reach) {
  auto inode = co_await operation.inode(entry.handle, mode, reach);
  if (inode.code() == Errc::kStaleHandle) co_return Error(Errc::kCorrupt, "an entry without its inode");
  co_return inode;
}

namespace {

/// Reads the entry, and adds it to the operation's trail.
job::Task<Result<std::optional<EntryRecord>>> next_entry(Operation& operation, Handle directory, std::string name,
                                                         ReadMode mode) {
  if (operation.trail() == nullptr) {
    auto found = co_await operation.entry(directory, std::move(name), mode);
    co_return found;
  }
  wire::LeaseStep step;
  step.directory = directory;
  step.name = name;
  SPATE_CO_TRY(const auto entry, co_await operation.entry(directory, std::move(name), mode));
  if (entry) step.object = entry->handle;
  if (entry) step.type = entry->type;
  operation.trail()->push_back(std::move(step));
  co_return entry;
}

}  // namespace

Walker::Walker(Operation& operation, const wire::NamePath& where)
    : operation_(operation),
      at_(where.start),
      path_(where.path),
      rooted_links_((where.flags & wire::NamePath::kRootedLinks) != 0),
      flags_known_((where.flags & ~(wire::NamePath::kFollowLast | wire::NamePath::kRootedLinks)) == 0) {}

Walker::Step Walker::next_component(std::string& component) {
  const std::size_t begin = path_.find_first_not_of('/', position_);
  if (begin == std::string::npos) return Step::kEnd;
  std::size_t end = path_.find('/', begin);
  if (end == std::string::npos) end = path_.size();
  component.assign(path_, begin, end - begin);
  position_ = end;
  return path_.find_first_not_of('/', end) == std::string::npos ? Step::kLast : Step::kMore;
}

job::Task<Result<PathEnd>> Walker::to_last() {
  SPATE_CO_TRY(PathEnd place, co_await to_last_of_any_length());
  if (place.name.size() > kMaxNameBytes) co_return Errc::kNameTooLong;
  co_return place;
}

job::Task<Result<PathEnd>> Walker::to_last_of_any_length() {
  if (!flags_known_) co_return Error::told(Errc::kInvalidArgument, "a path with flags that this server does not know");
  if (links_ == 0 && path_.size() > kMaxPathBytes) co_return Errc::kNameTooLong;
  if (path_.find('\0') != std::string::npos) co_return Error::told(Errc::kInvalidArgument, "a path with a NUL byte");
  for (;;) {
    PathEnd place;
    const std::size_t before = position_;
    const Step step = next_component(place.name);
    if (step == Step::kMore && place.name.size() > kMaxNameBytes) co_return Errc::kNameTooLong;
    place.directory = at_;
    place.slash = position_ < path_.size();
    if (step == Step::kEnd) {
      place.slash = before < path_.size();
      co_return place;
    }
    if (step == Step::kLast) {
      place.last = place.name == "."    ? PathEnd::Last::kDot
                   : place.name == ".." ? PathEnd::Last::kDotDot
                                        : PathEnd::Last::kName;
      co_return place;
    }
    SPATE_CO_TRY(std::ignore, co_await enter(std::move(place.name)));
  }
}

job::Task<Result<void>> Walker::enter(std::string component) {
  SPATE_CO_TRY(const InodeRecord directory, co_await operation_.inode(at_, ReadMode::kSnapshot, Reach::kOnTheWay));
  SPATE_CO_TRY(std::ignore, check_searchable(operation_.who(), directory));
  if (component == ".") co_return {};
  if (component == "..") {
    at_ = directory.parent;
    co_return {};
  }
  SPATE_CO_TRY(const auto entry, co_await next_entry(operation_, at_, std::move(component), ReadMode::kChecked));
  if (!entry) co_return Errc::kNotFound;
  if (entry->type == FileType::kDirectory) {
    at_ = entry->handle;
    co_return {};
  }
  if (entry->type != FileType::kSymlink) co_return Errc::kNotDirectory;
  const EntryRecord found = *entry;
  SPATE_CO_TRY(const InodeRecord link, co_await inode_of(operation_, found, ReadMode::kSnapshot));
  co_return substitute(at_, link);
}

Result<void> Walker::follow(const PathEnd& place, const InodeRecord& link) { return substitute(place.directory, link); }

Result<void> Walker::substitute(Handle directory, const InodeRecord& link) {
  if (++links_ > kMaxSymlinkDepth) return Errc::kSymlinkLoop;
  std::string path = link.target + path_.substr(position_);
  if (link.target.starts_with('/')) {
    if (!rooted_links_) return Error(Errc::kCrossDevice, std::move(path));
    directory = kRootHandle;
  }
  at_ = directory;
  path_ = std::move(path);
  position_ = 0;
  return {};
}

namespace {

/// The end of a walk that wants the object there.
struct Sought {
  bool follow_last = false;
  Reach reach = Reach::kInside;
};

/// The object at `place`; nothing if it is a link to be followed.
job::Task<Result<std::optional<InodeRecord>>> object_at(Operation& operation, Walker& walker, const PathEnd& place,
                                                        Sought sought) {
  std::optional<InodeRecord> object;
  if (place.last == PathEnd::Last::kStart) {
    SPATE_CO_TRY(object, co_await operation.inode(place.directory, ReadMode::kChecked, sought.reach));
  } else {
    SPATE_CO_TRY(const InodeRecord directory,
                 co_await operation.inode(place.directory, ReadMode::kSnapshot, Reach::kOnTheWay));
    SPATE_CO_TRY(std::ignore, check_searchable(operation.who(), directory));
    if (place.last == PathEnd::Last::kName) {
      SPATE_CO_TRY(const auto entry, co_await next_entry(operation, place.directory, place.name, ReadMode::kSnapshot));
      if (!entry) co_return Errc::kNotFound;
      const EntryRecord found = *entry;
      SPATE_CO_TRY(object, co_await inode_of(operation, found, ReadMode::kChecked, sought.reach));
    } else {
      const Handle handle = place.last == PathEnd::Last::kDot ? place.directory : directory.parent;
      SPATE_CO_TRY(object, co_await operation.inode(handle, ReadMode::kChecked, sought.reach));
    }
  }
  if (object->is_symlink() && (sought.follow_last || place.slash) && place.last == PathEnd::Last::kName) {
    SPATE_CO_TRY(std::ignore, walker.follow(place, *object));
    co_return std::optional<InodeRecord>();
  }
  if (place.slash && !object->is_directory()) co_return Errc::kNotDirectory;
  co_return object;
}

}  // namespace

job::Task<Result<InodeRecord>> walk(Operation& operation, wire::NamePath where, Reach reach) {
  const Sought sought{(where.flags & wire::NamePath::kFollowLast) != 0, reach};
  Walker walker(operation, where);
  for (;;) {
    SPATE_CO_TRY(const PathEnd place, co_await walker.to_last());
    SPATE_CO_TRY(auto object, co_await object_at(operation, walker, place, sought));
    if (object) co_return *std::move(object);
  }
}

job::Task<Result<void>> admit_inside(Operation& operation, Handle object) {
  Confinement* const confinement = operation.confinement();
  if (confinement == nullptr) co_return {};
  auto admitted = co_await confinement->admit(operation.store(), object, Reach::kInside);
  co_return admitted;
}

job::Task<Result<NamedEntry>> entry_for_change(Operation& operation, PathEnd place) {
  SPATE_CHECK(place.last == PathEnd::Last::kName);
  SPATE_CO_TRY(std::ignore, co_await admit_inside(operation, place.directory));
  SPATE_CO_TRY(std::ignore, operation.lock({place.directory}));
  NamedEntry named;
  SPATE_CO_TRY(named.directory, co_await operation.inode(place.directory));
  operation.made_at_client().not_before(named.directory.attributes.mtime);
  SPATE_CO_TRY(std::ignore, check_searchable(operation.who(), named.directory));
  SPATE_CO_TRY(named.entry, co_await operation.entry(place.directory, std::move(place.name)));
  co_return named;
}

}  // namespace spate::meta
