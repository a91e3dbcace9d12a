// SPDX-License-Identifier: Apache-2.0
#include "log/line.h"

#include <fmt/format.h>

#include <ctime>
#include <vector>

#include "base/printable.h"
#include "log/line_file.h"

namespace spate::log {
namespace {

struct Field {
  std::string_view key;
  std::string value;
};

bool is_key(std::string_view word) {
  if (word.empty() || word[0] < 'a' || word[0] > 'z') return false;
  for (const char c : word) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

/// Removes and returns the value at the start of `rest`: up to the next space, or a double-quoted text.
std::string take_value(std::string_view& rest) {
  std::string value;
  if (rest.empty() || rest[0] != '"') {
    const std::string_view bare = rest.substr(0, rest.find(' '));
    rest.remove_prefix(bare.size());
    return std::string(bare);
  }
  std::size_t i = 1;
  for (; i < rest.size() && rest[i] != '"'; ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size()) ++i;
    value += rest[i];
  }
  rest.remove_prefix(i < rest.size() ? i + 1 : i);
  return value;
}

/// Splits a body into its fields and the other words, which it returns.
std::string split_fields(std::string_view body, std::vector<Field>& fields) {
  std::string message;
  while (!body.empty()) {
    if (body[0] == ' ') {
      body.remove_prefix(1);
      continue;
    }
    const std::string_view word = body.substr(0, body.find(' '));
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos && is_key(word.substr(0, equals))) {
      const std::string_view key = word.substr(0, equals);
      body.remove_prefix(equals + 1);
      fields.push_back({key, take_value(body)});
    } else {
      message.append(message.empty() ? "" : " ").append(word);
      body.remove_prefix(word.size());
    }
  }
  return message;
}

std::string render_json(const Line& line) {
  std::vector<Field> fields;
  const std::string message = split_fields(line.body, fields);
  std::string out = fmt::format(R"({{"time":"{}","level":"{}","folder":"{}","message":)", timestamp(line.time),
                                name(line.level), line.folder);
  append_json_text(out, message);
  out += R"(,"fields":{)";
  for (std::size_t i = 0; i < fields.size(); ++i) {
    out += fmt::format("{}\"{}\":", i == 0 ? "" : ",", fields[i].key);
    append_json_text(out, fields[i].value);
  }
  return out + "}}";
}

}  // namespace

std::string timestamp(WallTime time) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t seconds = time.ns / kSecond;
  std::int64_t rest = time.ns % kSecond;
  if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  const std::time_t t = seconds;
  std::tm tm{};
  gmtime_r(&t, &tm);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                     tm.tm_hour, tm.tm_min, tm.tm_sec, rest / 1000);
}

std::string render(const Line& line, Format format) {
  Line shown = line;
  std::string cut;
  if (line.body.size() > kMaxLineBytes) {
    cut = std::string(line.body.substr(0, kMaxLineBytes)) + "...";
    shown.body = cut;
  }
  if (format == Format::kJson) return render_json(shown);
  std::string out = fmt::format("{} {} {} ", timestamp(shown.time), name(shown.level), shown.folder);
  return out + escape_controls(shown.body);
}

}  // namespace spate::log
