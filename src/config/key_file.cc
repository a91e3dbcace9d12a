// SPDX-License-Identifier: Apache-2.0
#include "config/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <tuple>

#include "base/unique_fd.h"

namespace spate::config {
namespace {

constexpr std::size_t kHexDigits = 64;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Nothing unless the line has 64 hex digits.
std::optional<spate::Key> parse_line(std::string_view line) {
  spate::Key key{};
  if (line.size() != kHexDigits) return std::nullopt;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const int high = hex_digit(line[2 * i]);
    const int low = hex_digit(line[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key[i] = static_cast<std::byte>(high * 16 + low);
  }
  return key;
}

Result<void> check_status(int fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return errno_error(errno, "stat " + path);
  if (!S_ISREG(status.st_mode))
    return Error::told(Errc::kInvalidArgument, path + " is no key file: not a regular file");
  if ((status.st_mode & 0177U) != 0) {
    return Error::told(Errc::kPermissionDenied, "others than its owner may use the key file: run chmod 600 " + path);
  }
  if (status.st_uid != ::geteuid() && ::geteuid() != 0) {
    return Error::told(Errc::kPermissionDenied,
                       path + " belongs to another user: run chown " + std::to_string(::geteuid()) + " " + path);
  }
  return {};
}

}  // namespace

std::string key_file_text(const spate::Key& key) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : key) {
    text += kDigits[std::to_integer<std::size_t>(b >> 4U)];
    text += kDigits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return text + '\n';
}

Result<KeyRing> parse_key_file(std::string_view text, const std::string& path) {
  KeyRing keys;
  for (std::size_t line = 0; line == 0 || !text.empty(); ++line) {
    const std::optional<spate::Key> key = line < kMaxKeys ? parse_line(text.substr(0, text.find('\n'))) : std::nullopt;
    if (!key) {
      return Error::told(Errc::kInvalidArgument,
                         path + " is no key file: it must hold 64 hex digits, and may hold 7 more such lines");
    }
    if (line == 0) {
      keys.used = *key;
    } else {
      keys.others.push_back(*key);
    }
    text.remove_prefix(std::min(text.size(), kHexDigits + 1));
  }
  return keys;
}

Result<spate::Key> read_key_file(const std::string& path) {
  SPATE_TRY(const KeyRing keys, read_keys(path));
  return keys.used;
}

Result<KeyRing> read_keys(const std::string& path) {
  if (path.empty()) {
    return Error::told(
        Errc::kInvalidArgument,
        "the configuration names no key file: servers need fs.server_key_file whatever fs.auth says, and with "
        "auth = \"key\" servers and clients need fs.client_key_file (each a file of 64 hex digits, mode 0600)");
  }
  // O_NONBLOCK: if the path is a pipe, the open must not hang.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno_error(errno, "open key file " + path);
  SPATE_TRY(std::ignore, check_status(fd.get(), path));
  std::array<char, kMaxKeys*(kHexDigits + 1) + 1> text{};
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "read key file " + path);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  return parse_key_file({text.data(), size}, path);
}

Result<spate::Key> create_key_file(const std::string& path, Random& random) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return errno_error(errno, "create key file " + path);
  spate::Key key{};
  random.fill(key);
  const std::string text = key_file_text(key);
  const bool written = ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::fsync(fd.get()) != 0) {
    const int error = errno;
    ::unlink(path.c_str());  // an incomplete key file is worse than none
    return errno_error(error, "write key file " + path);
  }
  return key;
}

}  // namespace spate::config
