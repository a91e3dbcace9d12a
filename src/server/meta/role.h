// SPDX-License-Identifier: Apache-2.0
// MetaRole: the whole meta server: name space, sessions, opens, background work.
#pragma once

#include "server/meta/background/intent_recovery.h"
#include "server/meta/background/removal.h"
#include "server/meta/core/answers.h"
#include "server/meta/leases/lease_manager.h"
#include "server/meta/locks/lock_manager.h"
#include "server/meta/meta_service.h"
#include "server/meta/session/opens.h"
#include "server/meta/session/sessions.h"

namespace spate::meta {

/// Life cycle: construct -> start() awaited -> service() added to a rpc::Server -> the server stopped -> stop() awaited
/// -> destroyed. One executor. Store, random numbers, metrics and io servers outlive it.
class MetaRole {
 public:
  MetaRole(MetaOptions options, job::KeyvalContext& store, Random& random, metrics::Registry& metrics, IoServers& io);
  MetaRole(const MetaRole&) = delete;
  MetaRole& operator=(const MetaRole&) = delete;

  /// Reads the state that an earlier process left in the store, and continues its work. After a failure nothing runs,
  /// but the caller must call stop() nevertheless.
  job::Task<Result<void>> start();
  /// Ends all background work. Unfinished work stays recorded in the store.
  job::Task<Result<void>> stop();

  MetaService& service() { return service_; }
  MetaCore& core() { return core_; }
  const FileIntentRecovery& intent_recovery() const { return intent_recovery_; }
  const AnswerTable& answers() const { return answers_; }
  const LockTable& locks() const { return locks_.table(); }
  const LeaseTable& leases() const { return leases_.table(); }

 private:
  MetaCore core_;
  AnswerTable answers_;
  OpenTable opens_;
  SessionEvents events_;
  LockManager locks_;
  LeaseManager leases_;
  SessionTable sessions_;
  FileIntentRecovery intent_recovery_;
  RemovalQueue removals_;
  MetaService service_;
};

}  // namespace spate::meta
