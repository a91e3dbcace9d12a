// SPDX-License-Identifier: Apache-2.0
#include "trove/resolver.h"

#include <algorithm>

#include "base/check.h"

namespace spate::trove {

void Resolver::append(ReadPoint& point) {
  point.version_ = applied_;  // never falls, so the list stays in order
  point.before_ = newest_;
  point.after_ = nullptr;
  (newest_ == nullptr ? oldest_ : newest_->after_) = &point;
  newest_ = &point;
}

void Resolver::unlink(ReadPoint& point) {
  (point.before_ == nullptr ? oldest_ : point.before_->after_) = point.after_;
  (point.after_ == nullptr ? newest_ : point.after_->before_) = point.before_;
}

void Resolver::begin(ReadPoint& point) {
  SPATE_CHECK(!point.live_);
  point.live_ = true;
  append(point);
}

void Resolver::refresh(ReadPoint& point) {
  SPATE_CHECK(point.live_);
  if (point.version_ == applied_) return;
  unlink(point);
  append(point);
}

void Resolver::end(ReadPoint& point) {
  if (!std::exchange(point.live_, false)) return;
  unlink(point);
}

Version Resolver::oldest() const { return oldest_ == nullptr ? applied_ : std::min(oldest_->version_, applied_); }

bool Resolver::unchanged(const ReadPoint& point, const ReadSet& reads) const {
  if (point.version_ == decided_) return true;
  for (const ByteView key : reads.keys()) {
    if (window_.key_changed(key, point.version_)) return false;
  }
  for (const ReadSet::Range& range : reads.ranges()) {
    if (window_.range_changed(range.begin, range.end, point.version_)) return false;
  }
  return true;
}

void Resolver::record(Version version, const WriteSet& writes) {
  for (const auto& [key, write] : writes) window_.record(version, key);
}

void Resolver::applied_now(Version version, const WriteSet& writes) {
  SPATE_CHECK(version == applied_ + 1);
  // No transaction is live: every later one begins after this commit and never asks about it.
  if (oldest_ != nullptr) record(version, writes);
  applied_ = version;
  prune();
}

void Resolver::failed_now(Version version) {
  SPATE_CHECK(version == applied_ + 1);
  applied_ = version;
}

void Resolver::applied_later(Version version, const WriteSet& writes) {
  SPATE_CHECK(version == decided_);
  record(version, writes);
}

void Resolver::settle(Version version) {
  SPATE_CHECK(version > applied_ && version <= decided_);
  applied_ = version;
  prune();
}

void Resolver::prune() {
  const Version bound = oldest();
  if (bound > window_.start()) window_.forget_up_to(bound);
}

}  // namespace spate::trove
