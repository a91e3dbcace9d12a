// SPDX-License-Identifier: Apache-2.0
#include "tools/local_destination.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "tools/context.h"
#include "tools/destination.h"

namespace spate::tools {
namespace {

timespec spec(WallTime t) {
  return {static_cast<time_t>(t.ns / 1'000'000'000), static_cast<long>(t.ns % 1'000'000'000)};
}

/// The error of creating `to`, with what is in the way.
Error cannot_make_here(int error, const CopySource& source) {
  const std::string folder = split_path(source.to).first;
  if (error == ENOENT)
    return Error::told(Errc::kNotFound,
                       source.to + " cannot be made, as there is no " + folder + " (mkdir -p " + folder + " makes it)");
  if (error == EISDIR)
    return Error::told(Errc::kIsDirectory,
                       "cannot overwrite directory " + source.to + " with non-directory spate:" + source.from);
  return errno_error(error, source.to);
}

/// Calls `make` to create an object at a place. If the name exists already and is no directory, removes it first.
template <typename Make>
Result<void> make_anew_here(const CopySource& source, Make make) {
  if (make() == 0) return {};
  if (errno != EEXIST) return cannot_make_here(errno, source);
  if (::unlinkat(source.place.at(), source.place.c_str(), 0) != 0) return cannot_make_here(errno, source);
  return make() == 0 ? Result<void>() : cannot_make_here(errno, source);
}

/// Removes an access list: the users in it may not be allowed to read the source.
Result<void> remove_access_list(const LocalFile& local, const CopySource& file) {
  constexpr const char* kList = "system.posix_acl_access";
  if (::fgetxattr(local.fd.get(), kList, nullptr, 0) <= 0) return {};
  if (::fremovexattr(local.fd.get(), kList) == 0) return {};
  return errno_error(errno, "access list of " + file.to + ", to which nothing was written");
}

/// Restricts mode and owner of a file to the new ones before any data is written.
Result<void> narrow(LocalFile& local, const struct stat& st, const CopySource& file) {
  const Attributes& a = file.attributes;
  SPATE_TRY(std::ignore, remove_access_list(local, file));
  local.uid = st.st_uid;
  local.gid = st.st_gid;
  if (keeps_owners() && (st.st_uid != a.uid || st.st_gid != a.gid)) {
    if (::fchown(local.fd.get(), a.uid, a.gid) != 0) return errno_error(errno, "owner of " + file.to);
    local.uid = a.uid;
    local.gid = a.gid;
  }
  if ((st.st_mode & ~a.mode & kForOthers) == 0) return {};
  if (::fchmod(local.fd.get(), st.st_mode & a.mode & 0777U) != 0)
    return errno_error(errno, "mode of " + file.to + ", to which nothing was written");
  return {};
}

/// Returns -1 and errno on failure. Follows a link only if the user named it; otherwise the file replaces the link.
int open_for_writing(const LocalPlace& place) {
  constexpr int kHow = O_WRONLY | O_CREAT | O_CLOEXEC;
  const int file = ::openat(place.at(), place.c_str(), kHow | O_TRUNC | place.follow(), 0600);
  if (file >= 0 || errno != ELOOP || place.folder == nullptr) return file;
  if (::unlinkat(place.at(), place.c_str(), 0) != 0) return -1;
  return ::openat(place.at(), place.c_str(), kHow | O_EXCL | O_NOFOLLOW, 0600);
}

/// `uid`, `gid`: the owner that the copy has.
Result<void> finish(int fd, std::uint32_t uid, std::uint32_t gid, const Attributes& a, const std::string& to) {
  const timespec times[2] = {spec(a.atime), spec(a.mtime)};
  if (::fchmod(fd, owner_of(a).mode_for(uid, gid)) != 0 || ::futimens(fd, times) != 0)
    return errno_error(errno, "attributes of " + to);
  return {};
}

}  // namespace

Result<LocalPlace> place_below(const LocalFolderPtr& top, const std::string& path) {
  LocalFolderPtr folder = top;
  std::size_t begin = 0;
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', begin)) {
    const std::string step = path.substr(begin, end - begin);
    UniqueFd below(::openat(folder->fd.get(), step.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below) return errno_error(errno, path.substr(0, end));
    folder = std::make_shared<const LocalFolder>(LocalFolder{std::move(below)});
    begin = end + 1;
  }
  return LocalPlace{std::move(folder), path.substr(begin)};
}

Result<LocalFile> open_local(const CopySource& file) {
  LocalFile local;
  local.fd = UniqueFd(open_for_writing(file.place));
  if (!local.fd) return cannot_make_here(errno, file);
  struct stat st{};
  if (::fstat(local.fd.get(), &st) != 0) return errno_error(errno, file.to);
  local.regular = S_ISREG(st.st_mode);
  if (local.regular) {
    SPATE_TRY(std::ignore, narrow(local, st, file));
  }
  return local;
}

Result<void> finish_local(const LocalFile& local, const CopySource& file) {
  if (!local.regular) return {};
  std::uint32_t uid = local.uid;
  std::uint32_t gid = local.gid;
  if ((file.attributes.mode & 06000U) != 0) {  // for the owner that the file has now
    struct stat st{};
    if (::fstat(local.fd.get(), &st) != 0) return errno_error(errno, "attributes of " + file.to);
    uid = st.st_uid;
    gid = st.st_gid;
  }
  return finish(local.fd.get(), uid, gid, file.attributes, file.to);
}

Result<void> make_symlink_here(const CopySource& link, const std::string& target) {
  const LocalPlace& place = link.place;
  SPATE_TRY(std::ignore, make_anew_here(link, [&] { return ::symlinkat(target.c_str(), place.at(), place.c_str()); }));
  const timespec times[2] = {spec(link.attributes.atime), spec(link.attributes.mtime)};
  if (::utimensat(place.at(), place.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
    return errno_error(errno, "times of " + link.to);
  return {};
}

Result<void> make_link_here(const LocalPlace& first, const CopySource& source) {
  const LocalPlace& place = source.place;
  return make_anew_here(source, [&] { return ::linkat(first.at(), first.c_str(), place.at(), place.c_str(), 0); });
}

Result<UniqueFd> make_directory_here(const CopySource& directory) {
  const LocalPlace& place = directory.place;
  const bool made = ::mkdirat(place.at(), place.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return cannot_make_here(errno, directory);
  UniqueFd folder(::openat(place.at(), place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder && (errno == ENOTDIR || errno == ELOOP)) {
    return Error::told(Errc::kNotDirectory,
                       "cannot overwrite non-directory " + directory.to + " with directory spate:" + directory.from);
  }
  struct stat st{};
  if (!folder || ::fstat(folder.get(), &st) != 0) return errno_error(errno, directory.to);
  const bool wider = !made && (st.st_mode & ~directory.attributes.mode & kForOthers) != 0;
  if (wider && ::fchmod(folder.get(), (st.st_mode & directory.attributes.mode & 0777U) | 0700U) != 0)
    return errno_error(errno, "mode of " + directory.to);
  return folder;
}

Result<void> finish_folder(const LocalFolder& folder, const Attributes& source, const std::string& to) {
  if (keeps_owners() && ::fchown(folder.fd.get(), source.uid, source.gid) != 0)
    return errno_error(errno, "owner of " + to);
  struct stat st{};
  if (::fstat(folder.fd.get(), &st) != 0) return errno_error(errno, "attributes of " + to);
  return finish(folder.fd.get(), st.st_uid, st.st_gid, source, to);
}

}  // namespace spate::tools
