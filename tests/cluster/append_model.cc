// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/append_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/cluster/data_model.h"

namespace spate::cluster {
namespace {

/// Larger than the numbers that the data model uses, so that the bytes of the two models differ.
constexpr WriteId kFirstContent = 1U << 22U;

}  // namespace

std::vector<std::uint64_t> AppendModel::handles() const {
  std::vector<std::uint64_t> list;
  for (const auto& [handle, appends] : files_) list.push_back(handle);
  return list;
}

AppendId AppendModel::begin(std::uint64_t handle, std::uint64_t size) {
  appends_.push_back({handle, size, ++time_, 0, 0, crashes_, false, false});
  return static_cast<AppendId>(appends_.size() - 1);
}

Bytes AppendModel::content(AppendId id) const {
  Bytes bytes(appends_[id].size);
  for (std::uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = DataModel::byte_of(kFirstContent + id, i);
  return bytes;
}

std::string AppendModel::succeeded(AppendId id, std::uint64_t start) {
  Append& append = appends_[id];
  append.start = start;
  append.ended = ++time_;
  append.perhaps_lost = append.crashes != crashes_;
  std::vector<AppendId>& others = files_.at(append.handle);
  std::string wrong;
  for (const AppendId other_id : others) {
    const Append& other = appends_[other_id];
    if (!is_there(other)) continue;
    const bool overlap = start < other.start + other.size && other.start < start + append.size;
    const bool too_early = other.ended < append.begun && start < other.start;
    if (!overlap && !too_early) continue;
    wrong = fmt::format("append {} went to {}+{}, but append {} was put to {}+{} {}", id, start, append.size, other_id,
                        other.start, other.size, too_early ? "before it began" : "too");
  }
  others.push_back(id);
  return wrong;
}

void AppendModel::synced(const std::vector<AppendId>& ids) {
  for (const AppendId id : ids) appends_[id].durable = !appends_[id].perhaps_lost;
}

void AppendModel::crashed() {
  ++crashes_;
  for (Append& append : appends_) append.perhaps_lost = append.perhaps_lost || !append.durable;
}

std::string AppendModel::end_read(std::uint64_t handle, std::uint64_t begun, ByteView data) const {
  for (const AppendId id : files_.at(handle)) {
    const Append& append = appends_[id];
    if (!is_there(append) || append.ended > begun) continue;
    if (append.start + append.size > data.size()) {
      return fmt::format("it ends at {}, but append {} was put to {}+{}", data.size(), id, append.start, append.size);
    }
    const Bytes expected = content(id);
    const ByteView got = data.subspan(append.start, append.size);
    const auto differ = std::mismatch(expected.begin(), expected.end(), got.begin());
    if (differ.first == expected.end()) continue;
    return fmt::format("append {} at {}+{} is not there from its byte {} on", id, append.start, append.size,
                       differ.first - expected.begin());
  }
  return {};
}

}  // namespace spate::cluster
