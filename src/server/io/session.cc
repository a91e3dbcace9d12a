// SPDX-License-Identifier: Apache-2.0
// Join: a client's new connections, and the end of its older ones (docs/consistency.md, "Resends").
#include "model/defect.h"
#include "server/io/io_service.h"
#include "server/io/parts.h"
#include "server/io/store.h"

namespace spate::io {
namespace {

Result<void> check_ticket(const Parts& parts, const SessionTicket& ticket, ClientId client) {
  if (!verify(parts.options.server_key, parts.options.fs, ticket)) {
    return Error::told(Errc::kUnauthenticated, "the session ticket is not genuine");
  }
  if (ticket.client != client) return Error::told(Errc::kUnauthenticated, "the session ticket is another client's");
  const WallTime now = parts.now();
  if (ticket.expiry <= now)
    return Error::told(Errc::kSessionUnknown, "the session ticket has expired: renew it at the meta server");
  if (ticket.expiry.ns - now.ns > parts.options.longest_capability.count()) {
    return Error::told(Errc::kUnauthenticated, "the session ticket would outlive every fence");
  }
  return {};
}

}  // namespace

job::Task<Result<void>> IoService::join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                                        wire::AuthenticateReply& reply) {
  if (request.kind == wire::PeerKind::kServer) co_return Result<void>();
  // A client whose session has ended may not know that. It would write to datafiles that other clients own by now.
  if (!parts_->fences_known && !planted(Defect::kEarlyServer)) {
    co_return Error::told(Errc::kBusy,
                          "this io server is new, and waits for the meta server to tell it which sessions have ended");
  }
  // If this process is also a meta server, it may have opened the session just now: then the ticket is in the reply.
  const bool fresh = reply.client.value != 0;
  if (!fresh && !request.ticket) {
    co_return Error::told(Errc::kUnauthenticated, "an io server needs a session ticket: ask the meta server first");
  }
  const SessionTicket ticket = fresh ? reply.ticket : *request.ticket;
  SPATE_CO_TRY(std::ignore, check_ticket(*parts_, ticket, fresh ? reply.client : request.client));
  if (peer.user_key && peer.user_key->user.uid != ticket.uid)
    co_return Error::told(Errc::kUnauthenticated, "the session ticket is another user's");

  SPATE_CO_TRY(std::ignore, co_await parts_->marks.note(ticket.client));
  ClientTable::Entry& entry = parts_->clients.add(ticket.client);
  const ClientTable::Pin pin(entry);
  SPATE_CO_TRY(const std::uint32_t fenced, co_await load_fence(*parts_, ticket.client));
  entry.lowest_epoch = std::max(entry.lowest_epoch, fenced);
  if (ticket.epoch < entry.lowest_epoch)
    co_return Error::told(Errc::kSessionFenced, "the session has ended: open a new one");
  const std::uint64_t mine = request.incarnation;
  const auto overtaken = [&entry, mine] { return mine < entry.incarnation; };
  const Error too_late(Errc::kUnauthenticated, "a newer connection of this client has taken over");
  if (overtaken()) co_return too_late;
  entry.incarnation = mine;
  co_await parts_->clients.end_all(entry, [mine](const ActiveRequest& r) { return r.incarnation < mine; });
  if (overtaken()) co_return too_late;  // may have changed

  reply.client = ticket.client;
  reply.epoch = ticket.epoch;
  reply.ticket = ticket;
  co_return Result<void>();
}

}  // namespace spate::io
