// SPDX-License-Identifier: Apache-2.0
// make_anew: a link in the place of whatever has its name, as `cp -r` makes it when it runs a second time.
#pragma once

#include "client/client.h"

namespace spate::tools {

/// `make()` makes something at `where`, which fails with kExists when the name is there: what has it then goes first,
/// unless it is a directory. Named arguments only: they are used until the task has ended.
template <typename Make>
job::Task<Result<void>> make_anew(client::Client& client, const wire::NamePath& where, const Make& make) {
  auto made = co_await make();
  if (made) co_return Result<void>();
  if (made.code() != Errc::kExists) co_return std::move(made).error();
  wire::NamePath there = where;
  there.flags &= static_cast<std::uint8_t>(~wire::NamePath::kFollowLast);
  auto removed = co_await client.unlink(there);
  if (!removed) co_return std::move(removed).error();
  made = co_await make();
  if (!made) co_return std::move(made).error();
  co_return Result<void>();
}

}  // namespace spate::tools
