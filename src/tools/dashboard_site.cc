// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard_site.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "http/local_host.h"

namespace spate::tools {
namespace {

constexpr std::string_view kBearer = "Bearer ";
/// The longest path of the file system, with each byte escaped.
constexpr std::size_t kMostPathBytes = 16'384;

http::Response failure(unsigned status, std::string_view sentence) {
  http::Response response;
  response.status = status;
  response.type = "application/json";
  response.body = nlohmann::json({{"error", sentence}}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return response;
}

http::Response json_text(std::string text) {
  http::Response response;
  response.type = "application/json";
  response.body = std::move(text);
  return response;
}

unsigned status_of(Errc code) {
  switch (code) {
    case Errc::kNotFound: return 404;
    case Errc::kPermissionDenied:
    case Errc::kNotPermitted: return 403;
    case Errc::kInvalidArgument:
    case Errc::kNotDirectory:
    case Errc::kNameTooLong: return 400;
    default: return 502;
  }
}

/// Forbids browsers to load parts of the page from other sites, to keep any of it, and to show it within another page.
void add_rules(http::Response& response) {
  response.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri "
       "'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
}

}  // namespace

http::Response DashboardSite::answer(const http::Request& request) const {
  http::Response response;
  if (!http::names_loopback(request.header("Host").value_or(""))) {
    response = failure(403,
                       "ask this machine by the name localhost or 127.0.0.1; another name may be that of a foreign "
                       "page");
  } else if (request.path().starts_with("/api/")) {
    response = data(request);
  } else if (const PageFile* const file = find_page_file(request.path()); file != nullptr) {
    response.type = file->type;
    response.body = file->text;
  } else {
    response = failure(404, "only / and the files that it loads exist");
  }
  add_rules(response);
  return response;
}

bool DashboardSite::knows_token(const http::Request& request) const {
  const std::string_view given = request.header("Authorization").value_or("");
  return given.starts_with(kBearer) && equal_secret(as_bytes(given.substr(kBearer.size())), as_bytes(token_));
}

http::Response DashboardSite::data(const http::Request& request) const {
  if (!knows_token(request)) return failure(401, "wrong token: open the address that `spate dashboard` has printed");
  if (request.path() == "/api/state") return json_text(data_.state());
  if (request.path() == "/api/path") return path(request);
  return failure(404, "there are /api/state and /api/path");
}

http::Response DashboardSite::path(const http::Request& request) const {
  const std::string_view path = request.argument("path").value_or("");
  const std::string_view from_text = request.argument("from").value_or("0");
  if (path.size() > kMostPathBytes) return failure(414, "one path at a time, as long as a path may be");
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos)
    return failure(400, "a path begins with / and holds no zero byte");
  std::uint64_t from = 0;
  const auto parsed = std::from_chars(from_text.data(), from_text.data() + from_text.size(), from);
  if (parsed.ec != std::errc() || parsed.ptr != from_text.data() + from_text.size())
    return failure(400, "from is a number");
  auto told = data_.path(std::string(path), from);
  if (!told) return failure(status_of(told.error().code()), told.error().message());
  return json_text(*std::move(told));
}

}  // namespace spate::tools
