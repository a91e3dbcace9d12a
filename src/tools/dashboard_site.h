// SPDX-License-Identifier: Apache-2.0
// DashboardSite: answers the HTTP requests to `spate dashboard`, and decides who gets an answer.
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

/// Every caller on this machine gets the page's own files, which hold no secrets. Paths below /api/ need the token in
/// the header Authorization. The token is never part of a URL that is sent, so no log and no Referer contains it. A
/// request whose Host is another machine is refused. Thread-safe if the functions of Data are.
class DashboardSite {
 public:
  /// Both functions return JSON. The error of `path` is shown to the user.
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
