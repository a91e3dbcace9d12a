// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <unistd.h>

#include <array>

#include "base/check.h"
#include "trove/keyval_harness.h"

namespace spate::trove {

ScratchFolder::ScratchFolder() {
  std::string name = std::filesystem::temp_directory_path() / "spate-keyval-XXXXXX";
  SPATE_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void sleep_until_event(Keyval& store) {
  if (!store.prepare_to_wait()) return;
  pollfd wanted{store.wait_descriptor(), POLLIN, 0};
  SPATE_CHECK(::poll(&wanted, 1, 10'000) == 1);
}

bool KeyvalTest::poll() {
  std::array<KeyvalCompletion, 8> out;
  const std::size_t n = store().test(out);
  for (std::size_t i = 0; i < n; ++i) {
    auto* pending = static_cast<Pending*>(out[i].user);
    SPATE_CHECK(!pending->ended);
    pending->done = std::move(out[i]);
    pending->ended = true;
  }
  return n > 0;
}

KeyvalCompletion KeyvalTest::wait(Pending& pending) {
  while (!pending.ended) {
    if (!poll()) backend_->idle();
  }
  EXPECT_EQ(pending.done.user, &pending);
  return std::move(pending.done);
}

std::unique_ptr<Pending> KeyvalTest::start_get(Transaction& t, const std::string& key, ReadMode mode) {
  return start([&](void* user, KeyvalCompletion& done) { return t.post_get(as_bytes(key), mode, user, done); });
}

std::unique_ptr<Pending> KeyvalTest::start_range(Transaction& t, const std::string& begin, const std::string& end,
                                                 std::size_t limit, ReadMode mode) {
  KeyRange range;
  range.begin = to_bytes(as_bytes(begin));
  range.end = to_bytes(as_bytes(end));
  range.limit = limit;
  range.mode = mode;
  return start([&](void* user, KeyvalCompletion& done) { return t.post_range(range, user, done); });
}

std::unique_ptr<Pending> KeyvalTest::start_commit(Transaction& t, Durability durability) {
  return start([&](void* user, KeyvalCompletion& done) { return t.post_commit(durability, user, done); });
}

Value KeyvalTest::get(Transaction& t, const std::string& key, ReadMode mode) {
  const KeyvalCompletion done = wait(*start_get(t, key, mode));
  EXPECT_EQ(done.status, Errc::kOk);
  if (!done.value) return std::nullopt;
  return std::string(as_text(*done.value));
}

Entries KeyvalTest::get_many(Transaction& t, const std::vector<std::string>& keys, ReadMode mode) {
  std::vector<Bytes> wanted;
  for (const std::string& key : keys) wanted.push_back(to_bytes(as_bytes(key)));
  const auto pending =
      start([&](void* user, KeyvalCompletion& done) { return t.post_get_many(wanted, mode, user, done); });
  wanted.clear();  // the post has copied the keys
  const KeyvalCompletion done = wait(*pending);
  EXPECT_EQ(done.status, Errc::kOk);
  Entries result;
  for (const KeyValue& entry : done.entries) result.emplace_back(as_text(entry.key), as_text(entry.value));
  return result;
}

Entries KeyvalTest::range(Transaction& t, const std::string& begin, const std::string& end, std::size_t limit,
                          ReadMode mode) {
  const KeyvalCompletion done = wait(*start_range(t, begin, end, limit, mode));
  EXPECT_EQ(done.status, Errc::kOk);
  Entries result;
  for (const KeyValue& entry : done.entries) result.emplace_back(as_text(entry.key), as_text(entry.value));
  if (done.more) result.emplace_back("...", "");
  return result;
}

Errc KeyvalTest::commit(Transaction& t, Durability durability) { return wait(*start_commit(t, durability)).status; }

Errc KeyvalTest::sync() {
  return wait(*start([&](void* user, KeyvalCompletion& done) { return store().post_sync(user, done); })).status;
}

void KeyvalTest::put(Transaction& t, const std::string& key, const std::string& value) {
  t.put(as_bytes(key), as_bytes(value));
}

void KeyvalTest::erase(Transaction& t, const std::string& key) { t.erase(as_bytes(key)); }

void KeyvalTest::put_now(const std::string& key, const std::string& value) {
  const auto t = begin();
  put(*t, key, value);
  ASSERT_EQ(commit(*t), Errc::kOk);
}

void KeyvalTest::erase_now(const std::string& key) {
  const auto t = begin();
  erase(*t, key);
  ASSERT_EQ(commit(*t), Errc::kOk);
}

Value KeyvalTest::get_now(const std::string& key) {
  const auto t = begin();
  return get(*t, key);
}

}  // namespace spate::trove
