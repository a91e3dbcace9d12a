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

#include "base/printable.h"
#include "base/unique_fd.h"

namespace spate::config {
namespace {

constexpr std::size_t kHexDigits = 64;
constexpr std::string_view kUserKeyWord = "spate-user-key ";
constexpr std::size_t kMostKeyText = 4096;  // of either kind of file

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Nothing unless the text is pairs of hex digits.
std::optional<Bytes> parse_hex(std::string_view text) {
  Bytes bytes;
  if (text.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_digit(text[i]);
    const int low = hex_digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return bytes;
}

std::string hex_text(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<std::size_t>(b >> 4U)];
    text += kDigits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return text;
}

/// Fills an array from the text; false unless it is as many hex digits.
template <std::size_t N>
bool fill_from_hex(std::string_view text, std::array<std::byte, N>& out) {
  const std::optional<Bytes> bytes = parse_hex(text);
  if (!bytes || bytes->size() != N) return false;
  std::ranges::copy(*bytes, out.begin());
  return true;
}

/// Nothing unless the line has 64 hex digits.
std::optional<spate::Key> parse_line(std::string_view line) {
  spate::Key key{};
  return fill_from_hex(line, key) ? std::optional(key) : std::nullopt;
}

/// The text up to the separator, which is removed with it.
std::string_view take_up_to(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(text.size(), end + 1));
  return part;
}

bool is_of_user(std::string_view text) { return text.starts_with('#') || text.starts_with(kUserKeyWord); }

/// Writes a file that nobody else may read. kExists if there is one already.
Result<void> write_new(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return errno_error(errno, "create key file " + path);
  const bool written = ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written && ::fsync(fd.get()) == 0) return {};
  const int error = errno;
  ::unlink(path.c_str());  // an incomplete key file is worse than none
  return errno_error(error, "write key file " + path);
}

Result<void> check_status(int fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return errno_error(errno, "stat " + path);
  if (!S_ISREG(status.st_mode))
    return Error::told(Errc::kInvalidArgument, path + " is not a key file, because it is not a regular file");
  if ((status.st_mode & 0177U) != 0) {
    return Error::told(Errc::kPermissionDenied,
                       "users other than its owner have access to the key file: run chmod 600 " + path);
  }
  if (status.st_uid != ::geteuid() && ::geteuid() != 0) {
    return Error::told(Errc::kPermissionDenied,
                       path + " belongs to another user: run chown " + std::to_string(::geteuid()) + " " + path);
  }
  return {};
}

/// The text of a file whose owner and mode are a key file's.
Result<std::string> read_text(const std::string& path) {
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
  std::string text(kMostKeyText + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error(errno, "read key file " + path);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  text.resize(size);
  return text;
}

}  // namespace

std::string key_file_text(const spate::Key& key) { return hex_text(key) + '\n'; }

Result<KeyRing> parse_key_file(std::string_view text, const std::string& path) {
  KeyRing keys;
  if (is_of_user(text)) {
    return Error::told(Errc::kInvalidArgument,
                       path + " holds the key of one user: servers, and who issues keys, need the file system's own");
  }
  for (std::size_t line = 0; line == 0 || !text.empty(); ++line) {
    const std::optional<spate::Key> key = line < kMaxKeys ? parse_line(text.substr(0, text.find('\n'))) : std::nullopt;
    if (!key) {
      return Error::told(Errc::kInvalidArgument,
                         path + " is not a key file: it must hold 64 hex digits, and may hold 7 more such lines");
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

std::string user_key_text(const ClientKey& key, const std::string& directory) {
  std::string text = "# A key of Spate for one user";
  if (!directory.empty()) text += ", good for " + spate::printable(directory) + " only";
  text += ". Keep it secret (chmod 600); a change of any digit makes it useless.\n";
  text.append(kUserKeyWord).append(hex_text(key.restrictions));
  return text + " " + hex_text(key.issuer) + " " + hex_text(key.secret) + "\n";
}

Result<ClientKey> parse_client_key(std::string_view text, const std::string& path) {
  if (!is_of_user(text)) {
    SPATE_TRY(const KeyRing keys, parse_key_file(text, path));
    return ClientKey(keys.used);
  }
  std::string_view line = take_up_to(text, '\n');
  if (line.starts_with('#')) line = take_up_to(text, '\n');
  ClientKey key;
  const bool named = line.starts_with(kUserKeyWord);
  line.remove_prefix(named ? kUserKeyWord.size() : 0);
  const std::optional<Bytes> restrictions = parse_hex(take_up_to(line, ' '));
  const bool whole = named && restrictions && !restrictions->empty() && text.empty() &&
                     fill_from_hex(take_up_to(line, ' '), key.issuer) && fill_from_hex(line, key.secret);
  if (!whole)
    return Error::told(Errc::kInvalidArgument,
                       path + " is not a key file: it begins as a user's key, and then is damaged");
  key.restrictions = *restrictions;
  return key;
}

Result<KeyRing> read_keys(const std::string& path) {
  SPATE_TRY(const std::string text, read_text(path));
  return parse_key_file(text, path);
}

Result<spate::Key> read_key_file(const std::string& path) {
  SPATE_TRY(const KeyRing keys, read_keys(path));
  return keys.used;
}

Result<ClientKey> read_client_key(const std::string& path) {
  SPATE_TRY(const std::string text, read_text(path));
  return parse_client_key(text, path);
}

Result<spate::Key> create_key_file(const std::string& path, Random& random) {
  spate::Key key{};
  random.fill(key);
  SPATE_TRY(std::ignore, write_new(path, key_file_text(key)));
  return key;
}

Result<void> create_user_key_file(const std::string& path, const ClientKey& key, const std::string& directory) {
  return write_new(path, user_key_text(key, directory));
}

}  // namespace spate::config
