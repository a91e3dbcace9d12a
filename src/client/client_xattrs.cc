// SPDX-License-Identifier: Apache-2.0
// Extended attributes.
#include <algorithm>

#include "client/client.h"
#include "wire/xattr_messages.h"

namespace spate::client {
namespace {

/// Room for an answer with the largest extended attribute.
constexpr std::uint32_t kXattrRoom = kMaxXattrValueBytes + 4096;
/// How the names of both access control lists begin.
constexpr std::string_view kAclXattrs = "system.posix_acl_";

}  // namespace

/// The state of an object that this client keeps under a lease. Nothing for symbolic links, which have no lists.
std::optional<KnownXattrs::State> Client::kept_state(const NamePath& where) {
  if (!where.path.empty()) return std::nullopt;
  const auto kept = cluster_.attributes().find_attributes(where);
  if (!kept || !*kept || (*kept)->type == FileType::kSymlink) return std::nullopt;
  return KnownXattrs::State{(*kept)->handle, (*kept)->version, session().meta().incarnation()};
}

/// `ls -l` and `cp -a` ask each object for its access control lists, which few have. Anybody may know whether there is
/// one.
job::Task<Result<Bytes>> Client::getxattr(NamePath where, std::string name) {
  if (name.starts_with(kAclXattrs) && kept_state(where)) {
    SPATE_CO_TRY(const auto names, co_await listxattr(where));
    if (std::find(names.begin(), names.end(), name) == names.end()) co_return Errc::kNoAttribute;
  }
  wire::GetxattrRequest request;
  request.where = std::move(where);
  request.name = std::move(name);
  SPATE_CO_TRY(auto reply, co_await session().ask(request, session().limits(), kXattrRoom));
  co_return std::move(reply.value);
}

job::Task<Result<void>> Client::setxattr(wire::SetxattrRequest request) {
  const Limits limits = session().limits();
  co_await send_gathered(request.where);
  SPATE_CO_TRY(std::ignore, co_await cluster_.change(request, limits));
  co_return Result<void>();
}

job::Task<Result<std::vector<std::string>>> Client::listxattr(NamePath where) {
  if (where.path.empty() && cluster_.queued().answers().has_no_xattrs(where.start))
    co_return std::vector<std::string>();
  const auto before = kept_state(where);
  if (const auto* const known = before ? xattrs_.find(*before) : nullptr) co_return *known;
  wire::ListxattrRequest request;
  request.where = where;
  SPATE_CO_TRY(auto reply, co_await session().ask(request, session().limits(), kXattrRoom));
  if (before && kept_state(where) == before) xattrs_.keep(*before, reply.names);  // unchanged in the meantime
  co_return std::move(reply.names);
}

job::Task<Result<void>> Client::removexattr(NamePath where, std::string name) {
  wire::RemovexattrRequest request;
  request.where = std::move(where);
  request.name = std::move(name);
  const Limits limits = session().limits();
  co_await send_gathered(request.where);
  SPATE_CO_TRY(std::ignore, co_await cluster_.change(request, limits));
  co_return Result<void>();
}

}  // namespace spate::client
