// SPDX-License-Identifier: Apache-2.0
// DashboardSite: what `spate dashboard` answers by HTTP, and to whom.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "http/server.h"

namespace spate::tools {

/// A file of the page, compiled in (src/tools/dashboard/).
struct PageFile {
  std::string_view path;
  std::string_view type;
  std::string_view text;
};
/// The file at a path; null: there is none.
const PageFile* find_page_file(std::string_view path);

/// The page's own files are for every caller on this machine, and hold nothing secret. What is under /api/ needs the
/// token, in the header Authorization: it is never part of a URL that is sent, so that no log and no Referer has it. A
/// Host that is not this machine is refused. Thread-safe if the functions are.
class DashboardSite {
 public:
  /// `state`, and `path(path, from)`: JSON. `path` yields an error with what to tell.
  struct Data {
    std::function<std::string()> state;
    std::function<Result<std::string>(const std::string& path, std::uint64_t from)> path;
  };
  DashboardSite(std::string token, Data data) : token_(std::move(token)), data_(std::move(data)) {}

  http::Response answer(const http::Request& request) const;

 private:
  bool knows_token(const http::Request& request) const;
  http::Response data(const http::Request& request) const;
  http::Response path(const http::Request& request) const;

  const std::string token_;
  const Data data_;
};

}  // namespace spate::tools
