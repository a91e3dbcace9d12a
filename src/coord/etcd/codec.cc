// SPDX-License-Identifier: Apache-2.0
#include "coord/etcd/codec.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace spate::coord {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string key_of(std::string_view prefix, std::string_view key) {
  std::string whole(prefix);
  whole += key;
  return base64(as_bytes(whole));
}

Error strange() { return {Errc::kProtocol, "answer of etcd"}; }

/// The member of that name; null if there is none, or `object` is not an object.
const Json* find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

/// The text of a member; empty if it has none. etcd leaves out empty values, and writes 64-bit numbers as text.
std::string text_in(const Json& object, const char* name) {
  const Json* const found = find(object, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

/// The first text of a list; empty if there is none.
std::string first_text_in(const Json& object, const char* name) {
  const Json* const found = find(object, name);
  const bool good = found != nullptr && found->is_array() && !found->empty() && found->front().is_string();
  return good ? found->front().get<std::string>() : std::string();
}

/// Null unless it is an object.
Json parse(std::string_view body) {
  Json answer = Json::parse(body, nullptr, false);
  return answer.is_object() ? answer : Json();
}

Result<std::uint64_t> number_in(const Json& object, const char* name) {
  const std::string text = text_in(object, name);
  std::uint64_t value = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || at != text.data() + text.size()) return strange();
  return value;
}

Result<std::uint64_t> revision_of(const Json& answer) {
  const Json* const header = find(answer, "header");
  if (header == nullptr) return strange();
  return number_in(*header, "revision");
}

}  // namespace

std::string base64(ByteView bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    const std::size_t here = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8U | (i < here ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out.push_back(i <= here ? kDigits[group >> (18 - 6 * i) & 63U] : '=');
    }
  }
  return out;
}

Result<Bytes> from_base64(std::string_view text) {
  Bytes out;
  if (text.size() % 4 != 0) return strange();
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::uint32_t group = 0;
    const std::size_t pad_here = at + 4 == text.size() ? padding : 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t digit = i < 4 - pad_here ? kDigits.find(text[at + i]) : 0;
      if (digit == std::string_view::npos) return strange();
      group = group << 6U | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t i = 0; i < 3 - pad_here; ++i) out.push_back(static_cast<std::byte>(group >> (16 - 8 * i)));
  }
  return out;
}

std::string range_request(std::string_view prefix) {
  std::string end(prefix);
  end.back() = static_cast<char>(end.back() + 1);  // keys are ASCII
  return R"({"key":")" + base64(as_bytes(prefix)) + R"(","range_end":")" + base64(as_bytes(end)) + "\"}";
}

std::string txn_request(std::string_view prefix, const Change& change) {
  std::string out = R"({"compare":[)";
  std::string_view comma;
  for (const Change::Compare& compare : change.compares) {
    out.append(comma).append(R"({"target":"MOD","result":"EQUAL","key":")").append(key_of(prefix, compare.key));
    out.append(R"(","mod_revision":")").append(std::to_string(compare.revision)).append("\"}");
    comma = ",";
  }
  out += R"(],"success":[)";
  comma = {};
  for (const Change::Put& put : change.puts) {
    out.append(comma).append(R"({"request_put":{"key":")").append(key_of(prefix, put.key));
    out.append(R"(","value":")").append(base64(put.value)).append("\"}}");
    comma = ",";
  }
  for (const std::string& key : change.erases) {
    out.append(comma).append(R"({"request_delete_range":{"key":")").append(key_of(prefix, key)).append("\"}}");
    comma = ",";
  }
  return out + "]}";
}

std::string add_member_request(std::string_view peer_url) {
  return Json{{"peerURLs", {peer_url}}, {"isLearner", true}}.dump();
}

std::string member_request(std::uint64_t id) { return R"({"ID":")" + std::to_string(id) + "\"}"; }

Result<Snapshot> range_answer(std::string_view prefix, std::string_view body) {
  const Json answer = parse(body);
  Snapshot out;
  SPATE_TRY(out.revision, revision_of(answer));
  const Json* const kvs = find(answer, "kvs");
  if (kvs == nullptr) return out;
  if (!kvs->is_array()) return strange();
  for (const Json& kv : *kvs) {
    Record record;
    SPATE_TRY(const Bytes key, from_base64(text_in(kv, "key")));
    const std::string_view text = as_text(key);
    if (!text.starts_with(prefix)) return strange();
    record.key = text.substr(prefix.size());
    SPATE_TRY(record.value, from_base64(text_in(kv, "value")));
    SPATE_TRY(record.revision, number_in(kv, "mod_revision"));
    out.records.push_back(std::move(record));
  }
  return out;
}

Result<std::uint64_t> txn_answer(std::string_view body) {
  const Json answer = parse(body);
  SPATE_TRY(const std::uint64_t revision, revision_of(answer));
  const Json* const succeeded = find(answer, "succeeded");
  if (succeeded == nullptr || *succeeded != true) return Errc::kConflict;
  return revision;
}

Result<std::vector<Voter>> members_answer(std::string_view body) {
  const Json answer = parse(body);
  const Json* const members = find(answer, "members");
  if (members == nullptr || !members->is_array()) return strange();
  std::vector<Voter> voters;
  for (const Json& member : *members) {
    Voter voter;
    SPATE_TRY(voter.id, number_in(member, "ID"));
    voter.name = text_in(member, "name");
    voter.peer_url = first_text_in(member, "peerURLs");
    voter.client_url = first_text_in(member, "clientURLs");
    const Json* const learner = find(member, "isLearner");
    voter.learner = learner != nullptr && *learner == true;
    voters.push_back(std::move(voter));
  }
  return voters;
}

Result<void> status_answer(std::string_view body) {
  const Json answer = parse(body);
  SPATE_TRY(std::ignore, revision_of(answer));
  if (find(answer, "leader") == nullptr)  // the gateway leaves out numbers that are 0
    return Error::told(Errc::kTryAgain, "it has no contact with a majority of the members");
  SPATE_TRY(std::ignore, number_in(answer, "leader"));
  return {};
}

std::string error_text(std::string_view body) {
  const std::string text = text_in(parse(body), "error");
  return text.empty() ? "an answer that cannot be read" : text.substr(0, 200);
}

}  // namespace spate::coord
