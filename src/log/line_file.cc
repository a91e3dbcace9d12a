// SPDX-License-Identifier: Apache-2.0
#include "log/line_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace spate::log {
namespace {

Result<UniqueFd> open_at_end(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640));
  if (!fd) return errno_error(errno, "open " + path);
  return fd;
}

}  // namespace

Result<std::unique_ptr<LineFile>> LineFile::open(const std::string& path) {
  SPATE_TRY(UniqueFd fd, open_at_end(path));
  return std::unique_ptr<LineFile>(new LineFile(path, std::move(fd)));
}

Result<void> LineFile::reopen() {
  SPATE_TRY(const UniqueFd fresh, open_at_end(path_));
  if (::dup3(fresh.get(), fd_.get(), O_CLOEXEC) < 0) return errno_error(errno, "replace " + path_);
  return {};
}

Result<void> LineFile::write(std::string_view line) {
  char end = '\n';
  const std::array<iovec, 3> parts = {iovec{&end, torn_ ? 1U : 0U}, iovec{const_cast<char*>(line.data()), line.size()},
                                      iovec{&end, 1}};
  const auto whole = static_cast<ssize_t>(parts[0].iov_len + line.size() + 1);
  ssize_t written = 0;
  do {
    written = ::writev(fd_.get(), parts.data(), static_cast<int>(parts.size()));
  } while (written < 0 && errno == EINTR);
  if (written < 0) return errno_error(errno, "write " + path_);
  if (written > 0) torn_ = written < whole;
  if (written == whole) return {};
  return Error::told(Errc::kNoSpace, "write " + path_ + ": a line is incomplete");
}

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace spate::log
