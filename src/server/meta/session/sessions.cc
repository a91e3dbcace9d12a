// SPDX-License-Identifier: Apache-2.0
#include "server/meta/session/sessions.h"

#include <algorithm>

#include "job/range_read.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::meta {
namespace {

constexpr std::size_t kSessionsAtOnce = 1000;
constexpr std::size_t kReleasesAtOnce = 32;
constexpr std::uint64_t kClientBatch = 1024;
constexpr std::size_t kMaxDescriptionBytes = 256;

std::optional<KeyId> key_of(const rpc::Peer& peer) {
  return peer.user_key ? std::optional(peer.user_key->id) : std::nullopt;
}

}  // namespace

SessionTable::SessionTable(MetaCore& core, AnswerTable& answers, OpenTable& opens)
    : core_(core),
      answers_(answers),
      opens_(opens),
      clients_({"next_client", 1, kClientBatch}, core.store()),
      releases_(core.executor(), kReleasesAtOnce),
      gate_(core.executor()),
      log_limit_(core.clock()) {}

job::Task<Result<void>> SessionTable::start() {
  SPATE_CO_TRY(std::ignore, co_await clients_.start());
  SPATE_CO_TRY(std::ignore, co_await load());
  std::vector<ClientId> holders = opens_.holders();
  const auto add_noted = [&holders](const auto* part) {
    if (part == nullptr) return;
    const std::vector<ClientId> noted = part->noted();
    holders.insert(holders.end(), noted.begin(), noted.end());
  };
  add_noted(core_.parts().locks);
  add_noted(core_.parts().leases);
  for (const ClientId client : holders) {
    if (sessions_.contains(client)) continue;
    SPATE_LOG("server/meta", error, "an unknown session has opens, locks or leases; they are released client={}",
              client.value);
    SessionRecord unknown;
    unknown.client = client;
    unknown.epoch = UINT32_MAX;
    unknown.state = SessionState::kEnding;
    add(std::move(unknown));
  }
  std::vector<SessionPtr> all;
  for (const auto& [client, session] : sessions_) all.push_back(session);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->record.client < b->record.client; });
  for (const SessionPtr& session : all) begin_release(session);
  job::spawn(gate_, watch_leases());
  co_return {};
}

job::Task<Result<void>> SessionTable::load() {
  job::Transaction transaction = core_.store().begin();
  trove::KeyRange range = all_of(KeyKind::kSession);
  range.limit = kSessionsAtOnce;
  range.mode = trove::ReadMode::kSnapshot;
  const auto take = [this](const trove::KeyValue& entry) -> Result<void> {
    SPATE_TRY(SessionRecord record, decode_record<SessionRecord>(entry.value));
    add(std::move(record));
    return {};
  };
  auto done = co_await job::read_range(transaction, std::move(range), "sessions in the meta store", take);
  co_return done;
}

job::Task<void> SessionTable::stop() {
  stopping_.request_stop();
  co_await gate_.close();
  co_await clients_.stop();
}

SessionTable::SessionPtr SessionTable::find(ClientId client) const {
  const auto found = sessions_.find(client);
  return found == sessions_.end() ? nullptr : found->second;
}

void SessionTable::add(SessionRecord record) {
  const ClientId client = record.client;
  auto session = std::make_shared<Session>(std::move(record), core_.executor());
  session->last_heard = core_.executor().now();
  if (session->open()) ++open_;
  sessions_.emplace(client, std::move(session));
}

void SessionTable::set_state(Session& session, SessionState state) {
  if (session.open()) --open_;
  session.record.state = state;
  if (session.open()) ++open_;
}

Result<void> SessionTable::check(const rpc::Call& call) const {
  if (call.peer->kind == wire::PeerKind::kServer) return {};  // servers and fsck have no session, and hold nothing
  const auto found = sessions_.find(call.header.client);
  if (found == sessions_.end()) return Errc::kSessionUnknown;
  const Session& session = *found->second;
  if (session.record.state == SessionState::kEnding) return Errc::kSessionUnknown;
  if (!session.open() || session.record.epoch != call.header.session_epoch) return Errc::kSessionFenced;
  return {};
}

Result<void> SessionTable::admit(const rpc::Call& call) {
  SPATE_TRY(std::ignore, check(call));
  const auto found = sessions_.find(call.header.client);
  if (found != sessions_.end()) found->second->last_heard = core_.executor().now();
  return {};
}

bool SessionTable::is_ending(ClientId client) const {
  const SessionPtr session = find(client);
  if (session == nullptr) return false;
  if (planted(Defect::kShortGrace) && session->open()) return false;
  return session->record.state == SessionState::kEnding || session->record.released_epoch != session->record.epoch;
}

wire::ListFencesReply SessionTable::fences(ClientId after) const {
  wire::ListFencesReply reply;
  for (const auto& [client, session] : sessions_) {
    const std::uint32_t lowest = std::max(session->record.released_epoch, session->fence_begun);
    if (client > after && lowest > 1) reply.fences.push_back({client, lowest});
  }
  std::ranges::sort(reply.fences, {}, &wire::ClientFence::client);
  reply.more = reply.fences.size() > wire::kMaxFences;
  if (reply.more) reply.fences.resize(wire::kMaxFences);
  return reply;
}

SessionTicket SessionTable::ticket_for(const Session& session) const {
  const MetaOptions& options = core_.options();
  SessionTicket ticket;
  ticket.client = session.record.client;
  ticket.epoch = session.record.epoch;
  ticket.uid = session.record.credential.uid;
  ticket.gid = session.record.credential.gid;
  ticket.expiry = WallTime{core_.clock().wall().ns + kTicketLife.count()};
  ticket.mac = sign(options.server_key.used, options.fs, ticket);
  return ticket;
}

void SessionTable::fill(const Session& session, wire::AuthenticateReply& reply) const {
  reply.client = session.record.client;
  reply.epoch = session.record.epoch;
  reply.ticket = ticket_for(session);
  const auto lease = std::chrono::duration_cast<std::chrono::milliseconds>(core_.options().session_lease);
  reply.lease_ms = static_cast<std::uint32_t>(std::clamp<std::int64_t>(lease.count(), 1, UINT32_MAX));
  reply.answer_slots = core_.options().answer_slots;
}

/// A session is resumed with another key of its user when a new one has taken the place of the old one. The key is
/// stored, so that its revocation ends the session even if the client has not come back since this server started. It
/// may have been revoked while the session was being opened; then nobody could end the session later.
job::Task<Result<void>> SessionTable::note_key(SessionPtr session, const rpc::Peer& peer) {
  const std::optional<KeyId> key = key_of(peer);
  if (session->record.user_key != key) {
    SPATE_CO_TRY(const job::Semaphore::Units turn, co_await session->turn.acquire(1, stopping_));
    session->record.user_key = key;
    SPATE_CO_TRY(std::ignore, co_await save(*session, trove::Durability::kProcess));
    if (find(session->record.client) != session || session->record.state == SessionState::kEnding)
      co_return Error::told(Errc::kSessionUnknown, "the session has ended: open a new one");
  }
  if (!key || !core_.revoked_keys().contains(*key)) co_return {};
  if (session->open()) expire(session, "its key was revoked");
  co_return Error::told(Errc::kUnauthenticated, "the key " + text_of(*key) + " was revoked");
}

job::Task<Result<void>> SessionTable::join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                                           wire::AuthenticateReply& reply) {
  if (request.kind == wire::PeerKind::kServer) co_return {};
  if (gate_.closed()) co_return Errc::kCancelled;
  const job::Gate::Pass holder(gate_);
  Result<SessionPtr> session = Errc::kUnknown;
  if (request.client) {
    session = co_await resume(peer, request);
  } else {
    session = co_await open_new(request, key_of(peer), stopping_);
  }
  if (!session) co_return std::move(session).error();
  SPATE_CO_TRY(std::ignore, co_await note_key(*session, peer));
  (*session)->last_heard = core_.executor().now();
  fill(**session, reply);
  co_return {};
}

job::Task<Result<SessionTable::SessionPtr>> SessionTable::open_new(const wire::AuthenticateRequest& request,
                                                                   std::optional<KeyId> user_key, job::StopToken stop) {
  if (sessions_.size() >= core_.options().max_sessions) co_return Error::told(Errc::kBusy, "too many sessions");
  if (request.credential.groups.size() > kMaxGroups) co_return Error::told(Errc::kInvalidArgument, "too many groups");
  SPATE_CO_TRY(std::ignore, co_await core_.used_numbers().known(stop));
  SPATE_CO_TRY(const std::uint64_t number, co_await clients_.take(stop));
  SessionRecord record;
  record.client = ClientId(number);
  record.credential = request.credential;
  record.description = request.description.substr(0, kMaxDescriptionBytes);
  record.opened = core_.clock().wall();
  record.user_key = user_key;
  auto session = std::make_shared<Session>(record, core_.executor());
  // Must survive a crash of the machine: a session that holds something must not be forgotten without a fence.
  SPATE_CO_TRY(std::ignore, co_await save(*session, trove::Durability::kMachine));
  session->last_heard = core_.executor().now();
  ++open_;
  sessions_.emplace(record.client, session);
  SPATE_LOG("server/meta", debug, "session opened client={} description={}", record.client.value,
            log::Quoted{record.description});
  co_return session;
}

/// A session may be resumed by the client that got its ticket, or by one with the client key that claims to be the same
/// user. The holder of a user's key needs the ticket, since ids of sessions can be guessed, and another key of the same
/// user may be in more groups. With a key for one directory it must be the very key that has opened the session.
Result<void> SessionTable::check_claim(const Session& session, const rpc::Peer& peer,
                                       const wire::AuthenticateRequest& request) const {
  // It may have files of other users open.
  if (peer.user_key && !session.record.user_key)
    return Error::told(Errc::kUnauthenticated, "the session was opened with a proof that is good for every user");
  if (peer.user_key && (!request.ticket || !covers(*peer.user_key, session.record.credential)))
    return Error::told(Errc::kUnauthenticated, "the session was opened with another key");
  // Objects that the session has open count as inside of the key's directory.
  if (peer.is_confined() && session.record.user_key != peer.user_key->id)
    return Error::told(Errc::kUnauthenticated, "the session was opened with another key than this one for a directory");
  if (request.ticket) {
    const MetaOptions& options = core_.options();
    const bool genuine = verify(options.server_key, options.fs, *request.ticket);
    if (!genuine || request.ticket->client != request.client) {
      return Error::told(Errc::kUnauthenticated, "the session ticket is not genuine");
    }
  }
  if (session.record.credential.uid != request.credential.uid) {
    return Error::told(Errc::kUnauthenticated, "the session is another user's");
  }
  return {};
}

job::Task<Result<SessionTable::SessionPtr>> SessionTable::resume(const rpc::Peer& peer,
                                                                 const wire::AuthenticateRequest& request) {
  const SessionPtr session = find(request.client);
  if (session == nullptr) co_return Error::told(Errc::kSessionUnknown, "the session has ended: open a new one");
  SPATE_CO_TRY(std::ignore, check_claim(*session, peer, request));
  SPATE_CO_TRY(const job::Semaphore::Units turn, co_await session->turn.acquire(1, stopping_));
  // may have changed
  if (session->record.state == SessionState::kEnding || find(request.client) != session) {
    co_return Error::told(Errc::kSessionUnknown, "the session has ended: open a new one");
  }
  if (session->open()) co_return session;
  set_state(*session, SessionState::kOpen);
  session->last_heard = core_.executor().now();
  const auto stored = co_await save(*session, trove::Durability::kProcess);
  if (!stored) {
    if (session->open()) set_state(*session, SessionState::kExpired);
    co_return stored.error();
  }
  SPATE_LOG("server/meta", info, "expired session is back client={} epoch={}", session->record.client.value,
            session->record.epoch);
  co_return session;
}

job::Task<Result<wire::KeepAliveReply>> SessionTable::keep_alive(rpc::Call& call, wire::KeepAliveRequest /*request*/) {
  SPATE_CO_TRY(std::ignore, admit(call));
  const SessionPtr session = find(call.header.client);
  if (session == nullptr) co_return Error::told(Errc::kInvalidArgument, "servers have no session to be kept alive");
  wire::KeepAliveReply reply;
  reply.fs_time = core_.clock().wall();
  reply.ticket = ticket_for(*session);
  co_return reply;
}

}  // namespace spate::meta
