// SPDX-License-Identifier: Apache-2.0
#include "client/prompt_io.h"

#include <algorithm>
#include <cerrno>

namespace spate::client {

void WriteHabits::took(MonoTime begin, MonoTime end) {
  if (end - begin < kPrompt) {
    pause_ = kFirstPause;
    return;
  }
  trusted_from_ = end + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
}

ssize_t PromptIo::move_pieces(const Pieces& pieces, bool is_write, bool wait) {
  if (wait || in_memory_) return calls_.move(pieces, is_write, 0);
  if (is_write && !habits_.tells()) return write_now(pieces);
  const ssize_t n = calls_.move(pieces, is_write, RWF_NOWAIT);
  if (n >= 0 || n == -EINTR) return n;
  if (n != -EOPNOTSUPP || !is_write) return -EAGAIN;  // whatever it is, the waiting way will meet it, too
  habits_.does_not_tell();
  return write_now(pieces);
}

ssize_t PromptIo::write_now(const Pieces& pieces) {
  const MonoTime begin = clock_.now();
  if (!habits_.seem_prompt(begin)) return -EAGAIN;
  const ssize_t n = calls_.move(pieces, true, 0);
  habits_.took(begin, clock_.now());
  return n;
}

}  // namespace spate::client
