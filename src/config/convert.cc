// SPDX-License-Identifier: Apache-2.0
#include "config/convert.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "base/units.h"

namespace spate::config {
namespace {

using Kind = RawValue::Kind;

constexpr std::size_t kMaxTextBytes = 4096;

std::string shown(const RawValue& raw) {
  switch (raw.kind) {
    case Kind::kText: return "\"" + raw.text.substr(0, 60) + "\"";
    case Kind::kInteger: return std::to_string(raw.integer);
    case Kind::kBoolean: return raw.boolean ? "true" : "false";
    case Kind::kList: return "a list";
    case Kind::kOther: return raw.text;
  }
  return {};
}

Error refuse(const Key& key, const std::string& what) {
  return Error::told(Errc::kInvalidArgument, key.full_name() + ": " + what + "; allowed: " + allowed_text(key));
}

Error refuse(const Key& key, const RawValue& raw) { return refuse(key, shown(raw) + " is not allowed"); }

/// Values go into system calls, messages and logs, so they must be printable.
bool printable(std::string_view text) {
  return text.size() <= kMaxTextBytes && std::none_of(text.begin(), text.end(), [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

Result<Value> in_range(const Key& key, const RawValue& raw, std::uint64_t number) {
  if (number < key.min || number > key.max) return refuse(key, shown(raw) + " is out of range");
  return Value(number);
}

Result<Value> convert_number(const Key& key, const RawValue& raw) {
  if (raw.kind == Kind::kInteger && raw.integer >= 0 && key.type != Type::kDuration && key.type != Type::kSync) {
    return in_range(key, raw, static_cast<std::uint64_t>(raw.integer));
  }
  if (raw.kind == Kind::kInteger && raw.integer > 0) return refuse(key, shown(raw) + " has no unit");
  if (raw.kind != Kind::kText) return refuse(key, raw);
  if (key.type == Type::kSync && raw.text == "commit") return Value(std::uint64_t{0});
  if (key.type == Type::kSize) {
    const auto size = parse_size(raw.text);
    return size ? in_range(key, raw, *size) : refuse(key, raw);
  }
  if (key.type == Type::kDuration || key.type == Type::kSync) {
    const auto span = parse_duration(raw.text);
    return span ? in_range(key, raw, static_cast<std::uint64_t>(span->count())) : refuse(key, raw);
  }
  return refuse(key, raw);
}

Result<Value> convert_hex(const Key& key, const RawValue& raw) {
  std::uint64_t id = 0;
  const std::string& text = raw.text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id, 16);
  const bool whole = raw.kind == Kind::kText && error == std::errc() && end == text.data() + text.size();
  if (!whole || text.size() > 16 || text[0] == '-' || id == 0) return refuse(key, raw);
  return Value(id);
}

Result<std::uint64_t> choice_index(const Key& key, const RawValue& raw) {
  const auto choices = split_choices(key.choices);
  const auto at = std::find(choices.begin(), choices.end(), raw.text);
  if (raw.kind == Kind::kText && at != choices.end()) return static_cast<std::uint64_t>(at - choices.begin());
  return refuse(key, raw);
}

Result<Value> convert_text(const Key& key, const RawValue& raw) {
  if (raw.kind != Kind::kText) return refuse(key, raw);
  if (!printable(raw.text)) return refuse(key, "the text is too long or has control characters");
  if (raw.text.size() < key.min || raw.text.size() > key.max) return refuse(key, shown(raw) + " has the wrong length");
  return Value(raw.text);
}

Result<Value> convert_list(const Key& key, const RawValue& raw) {
  if (raw.kind != Kind::kList) return refuse(key, raw);
  if (raw.list.size() < key.min || raw.list.size() > key.max) {
    return refuse(key, "a list of " + std::to_string(raw.list.size()));
  }
  std::vector<std::string> out;
  for (const RawValue& item : raw.list) {
    if (key.type == Type::kChoiceList || key.type == Type::kWordList) {
      SPATE_TRY(std::ignore, choice_index(key, item));
    }
    if (item.kind != Kind::kText || item.text.empty() || !printable(item.text)) return refuse(key, item);
    const bool again = std::find(out.begin(), out.end(), item.text) != out.end();
    if (again && key.type != Type::kWordList) return refuse(key, shown(item) + " stands twice");
    out.push_back(item.text);
  }
  return Value(std::move(out));
}

}  // namespace

Result<Value> convert(const Key& key, const RawValue& raw) {
  switch (key.type) {
    case Type::kText:
    case Type::kPath: return convert_text(key, raw);
    case Type::kTextList:
    case Type::kPathList:
    case Type::kChoiceList:
    case Type::kWordList: return convert_list(key, raw);
    case Type::kChoice: {
      SPATE_TRY(const std::uint64_t index, choice_index(key, raw));
      return Value(index);
    }
    case Type::kHexId: return convert_hex(key, raw);
    case Type::kCount:
    case Type::kSize:
    case Type::kDuration:
    case Type::kSync: return convert_number(key, raw);
  }
  return refuse(key, raw);
}

RawValue raw_from_text(const Key& key, std::string_view text) {
  RawValue out;
  out.kind = Kind::kText;
  out.text = text;
  if (key.type == Type::kCount) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.integer);
    if (error == std::errc() && end == text.data() + text.size() && !text.empty()) out.kind = Kind::kInteger;
  }
  if (key.type != Type::kTextList || text.find(',') == std::string_view::npos) return out;
  out.kind = Kind::kList;
  while (!text.empty()) {
    RawValue& one = out.list.emplace_back();
    one.kind = Kind::kText;
    one.text = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.text.size() + 1));
  }
  return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, 64);
  b = b.substr(0, 64);
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string suggest(std::string_view section, std::string_view name) {
  std::string best;
  // At most a third of the letters may differ, so that a suggestion never replaces a whole word.
  std::size_t best_distance = std::min<std::size_t>(3, std::max<std::size_t>(1, name.size() / 3)) + 1;
  const auto offer = [&](std::string_view candidate, std::string text, std::size_t handicap) {
    const std::size_t distance = edit_distance(name, candidate) + handicap;
    if (distance < best_distance) {
      best_distance = distance;
      best = std::move(text);
    }
  };
  if (section.empty()) {
    for (const Section& s : sections()) offer(s.name, std::string(s.name), 0);
  }
  for (const Key& key : keys()) {
    if (key.section == section) offer(key.name, std::string(key.name), 0);
  }
  // A key of another section, if none here is as near.
  for (const Key& key : keys()) offer(key.name, key.full_name(), 1);
  return best.empty() ? best : "did you mean \"" + best + "\"?";
}

}  // namespace spate::config
