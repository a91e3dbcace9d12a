// SPDX-License-Identifier: Apache-2.0
#include "client/file/meta_record.h"

#include "wire/meta_messages.h"

namespace spate::client {

job::Task<Result<void>> MetaRecord::sync(Limits limits) {
  const wire::MetaSyncRequest request;
  SPATE_CO_TRY(std::ignore, co_await cluster_.session().ask(request, limits));
  auto there = co_await check(limits);
  co_return there;
}

job::Task<Result<void>> MetaRecord::check(Limits limits) {
  const Incarnation now = cluster_.session().meta().incarnation();
  if (now == incarnation_) co_return Result<void>();
  wire::GetattrRequest look;
  look.handle = handle_;
  auto found = co_await cluster_.session().ask(look, limits);
  if (!found) co_return told(std::move(found).error());
  incarnation_ = now;
  co_return Result<void>();
}

/// A file that is open for writing stays while its session lives, unless the meta server's machine crashes before the
/// file's creation is durable. The program has the descriptor, so no error says that it is bad.
Error MetaRecord::told(Error error) const {
  const bool crashed = cluster_.session().meta().incarnation() != incarnation_;
  if (is_unknown_open(error.code()) && (crashed || capability_.in_current_epoch()))
    return Error(Errc::kLostWrite, "the meta server has lost the file");
  if (is_unknown_open(error.code()) || session_ended(error.code()))
    return Error(Errc::kSessionFenced, "the open ended with its session");
  return error;
}

}  // namespace spate::client
