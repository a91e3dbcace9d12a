// SPDX-License-Identifier: Apache-2.0
#include "trove/target_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/checksum.h"
#include "base/codec.h"
#include "trove/datafile_name.h"

namespace spate::trove {
namespace {

constexpr std::string_view kFolderMagic = "SpateTgt";
constexpr std::size_t kIdentityBytes = 32;  // magic 8, version 4, target 4, fs 8, reserved 4, crc 4

Error failed(int error_number, const std::string& path, std::string_view what) {
  return errno_error(error_number, std::string(what) + " " + path);
}

Result<TargetIdentity> read_identity(int fd, const std::string& path) {
  std::array<std::byte, 256> raw;
  const ssize_t n = ::pread(fd, raw.data(), raw.size(), 0);
  if (n < 0) return failed(errno, path, "read");
  return decode_identity(ByteView(raw).first(static_cast<std::size_t>(n)), path);
}

Result<UniqueFd> open_identity(const std::string& path) {
  const std::string file = path + "/" + kTargetFileName;
  UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return failed(errno, file, "open");
  return fd;
}

Result<UniqueFd> open_folder(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return failed(errno, path, "open folder");
  return fd;
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed(errno, path, "make folder");
  return {};
}

Result<void> sync_folder(const std::string& path) {
  SPATE_TRY(const UniqueFd fd, open_folder(path));
  if (::fsync(fd.get()) != 0) return failed(errno, path, "sync folder");
  return {};
}

Result<void> make_skeleton(const std::string& path) {
  SPATE_TRY(std::ignore, make_folder(path));
  SPATE_TRY(std::ignore, make_folder(path + "/d"));
  for (unsigned i = 0; i < kHashFolders; ++i) {
    SPATE_TRY(std::ignore, make_folder(path + "/d/" + hash_folder_name(i)));
  }
  SPATE_TRY(std::ignore, sync_folder(path + "/d"));
  return sync_folder(path);
}

/// Checks that the file system returns times as they were set: the datafiles' times hold the change counters.
Result<void> check_times(int fd, const std::string& path) {
  const std::array<timespec, 2> times{{{1'700'000'001, 123'456'789}, {1'700'000'000, 987'654'321}}};
  struct stat st{};
  if (::futimens(fd, times.data()) != 0 || ::fstat(fd, &st) != 0) return failed(errno, path, "set times");
  if (st.st_atim.tv_nsec != times[0].tv_nsec || st.st_mtim.tv_nsec != times[1].tv_nsec) {
    return Error(Errc::kNotSupported, path + ": the file system does not keep times to the nanosecond");
  }
  return {};
}

Result<void> write_identity(const std::string& path, const TargetIdentity& identity) {
  const std::string file = path + "/" + kTargetFileName;
  const std::string fresh = file + ".new";
  const UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return failed(errno, fresh, "create");
  const Bytes raw = encode_identity(identity);
  if (::pwrite(fd.get(), raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size())) {
    return failed(errno, fresh, "write");
  }
  SPATE_TRY(std::ignore, check_times(fd.get(), fresh));
  if (::fsync(fd.get()) != 0) return failed(errno, fresh, "sync");
  // Linked, not renamed: if two processes format the same folder at once, one fails.
  if (::link(fresh.c_str(), file.c_str()) != 0) return failed(errno, file, "create");
  ::unlink(fresh.c_str());
  return sync_folder(path);
}

}  // namespace

Bytes encode_identity(const TargetIdentity& identity) {
  Bytes out;
  Encoder encoder(out);
  encoder.raw(as_bytes(kFolderMagic));
  encoder.u32(kTargetFormatVersion);
  encoder.u32(identity.target.value);
  encoder.u64(identity.fs.value);
  encoder.u32(0);
  encoder.u32(crc32c(out));
  SPATE_CHECK(out.size() == kIdentityBytes);
  return out;
}

/// Checks the version before the checksum: a newer format may have another length, but keeps the first twelve bytes.
Result<TargetIdentity> decode_identity(ByteView in, const std::string& path) {
  Decoder decoder(in);
  const ByteView magic = decoder.raw(kFolderMagic.size());
  const std::uint32_t version = decoder.u32();
  if (!decoder.ok() || as_text(magic) != kFolderMagic)
    return Error(Errc::kCorrupt, path + ": not an identity file of a target");
  if (version > kTargetFormatVersion) {
    return Error(Errc::kFormatTooNew, path + ": format " + std::to_string(version) +
                                          ", this version of Spate reads up to " +
                                          std::to_string(kTargetFormatVersion));
  }
  TargetIdentity identity;
  identity.target = TargetId(decoder.u32());
  identity.fs = FsId(decoder.u64());
  decoder.u32();
  const std::uint32_t crc = decoder.u32();
  SPATE_TRY(std::ignore, decoder.finish(path));
  if (crc != crc32c(in.first(kIdentityBytes - 4))) return Error(Errc::kCorrupt, path + ": checksum does not match");
  return identity;
}

Result<void> create_target(const std::string& path, const TargetIdentity& identity) {
  if (!identity.fs || !identity.target) return Error(Errc::kInvalidArgument, "format target: ids must not be zero");
  if (::access((path + "/" + kTargetFileName).c_str(), F_OK) == 0) {
    return Error(Errc::kExists, path + ": is a target already");
  }
  SPATE_TRY(std::ignore, make_skeleton(path));
  return write_identity(path, identity);
}

Result<TargetIdentity> read_target_identity(const std::string& path) {
  SPATE_TRY(const UniqueFd fd, open_identity(path));
  return read_identity(fd.get(), path + "/" + kTargetFileName);
}

Result<TargetFolder> open_target(const std::string& path, const TargetIdentity& expected) {
  TargetFolder target;
  target.path = path;
  SPATE_TRY(target.lock, open_identity(path));
  SPATE_TRY(target.identity, read_identity(target.lock.get(), path + "/" + kTargetFileName));
  if (target.identity != expected) {
    char text[160];
    std::snprintf(text, sizeof text, ": holds target %u of file system %016llx, wanted target %u of %016llx",
                  target.identity.target.value, static_cast<unsigned long long>(target.identity.fs.value),
                  expected.target.value, static_cast<unsigned long long>(expected.fs.value));
    return Error(Errc::kWrongFileSystem, path + text);
  }
  if (::flock(target.lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Error::told(Errc::kBusy, path + ": another process uses this target");
    return failed(errno, path, "lock");
  }
  SPATE_TRY(target.folder, open_folder(path));
  SPATE_TRY(target.datafiles, open_folder(path + "/d"));
  return target;
}

}  // namespace spate::trove
