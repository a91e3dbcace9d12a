// SPDX-License-Identifier: Apache-2.0
// LineFile: a file of its own for lines that must not be mixed with the log.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::log {

/// Each line is one write(2) at the end of the file, so several processes may write to one file. Pinned. Any thread may
/// call reopen() while another one writes.
class LineFile {
 public:
  /// Opens the file, or creates it with mode 0640. Follows symbolic links.
  static Result<std::unique_ptr<LineFile>> open(const std::string& path);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Opens the path again, for rotation. On failure the old file stays in use.
  Result<void> reopen();
  /// `line` has no line end. On failure the line is lost. If a part of it was written, that part stays a line of its
  /// own. One thread at a time.
  Result<void> write(std::string_view line);

 private:
  LineFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  const std::string path_;
  const UniqueFd fd_;  // always the same number: reopen() puts another file behind it
  bool torn_ = false;  // the last line has no end
};

/// Appends the text in quotes, for JSON: with every byte that could end the text, or the line, escaped. Bytes from 0x7f
/// on are shown as Latin-1 characters, since the text may be of any encoding.
void append_json_text(std::string& out, std::string_view text);

}  // namespace spate::log
