// SPDX-License-Identifier: Apache-2.0
// Shared by the repairs: one repair under way, and /lost+found.
#pragma once

#include "server/meta/check/check.h"

namespace spate::meta {

/// One repair in one transaction (or, without `apply`, one look). A repair function checks that the damage is there,
/// calls confirm(), and mends the damage if that yields true. If it does not call confirm(), the damage is gone.
struct Repair {
  Operation& operation;
  const wire::Finding& finding;
  const bool apply;
  wire::MetaRepairReply reply;

  /// The damage is there. True: mend it.
  bool confirm(std::string note = {}) {
    reply.outcome = apply ? wire::RepairOutcome::kRepaired : wire::RepairOutcome::kConfirmed;
    reply.note = std::move(note);
    return apply;
  }
  /// The damage is there, but is not mended, for this reason.
  void leave(std::string why) {
    reply.outcome = wire::RepairOutcome::kLeft;
    reply.note = std::move(why);
  }
  /// The scan's count is out of date.
  void changed() { reply.outcome = wire::RepairOutcome::kChanged; }
  /// Operation::lock() for a repair; a look needs no locks.
  Result<void> lock(std::vector<Handle> directories) {
    return apply ? operation.lock(std::move(directories)) : Result<void>();
  }
};

using RepairFunction = job::Task<Result<void>> (*)(Repair& repair);

// repair_entries.cc
job::Task<Result<void>> mend_dangling_entry(Repair& repair);
job::Task<Result<void>> mend_missing_directory(Repair& repair);
job::Task<Result<void>> mend_entry_type(Repair& repair);
job::Task<Result<void>> mend_misfiled_entry(Repair& repair);
job::Task<Result<void>> mend_directory_counts(Repair& repair);
// repair_objects.cc
job::Task<Result<void>> mend_link_count(Repair& repair);
job::Task<Result<void>> mend_orphan_inode(Repair& repair);
job::Task<Result<void>> mend_unfinished_unlink(Repair& repair);
job::Task<Result<void>> mend_wrong_parent(Repair& repair);
job::Task<Result<void>> fill_parent(Repair& repair);
job::Task<Result<void>> mend_second_name(Repair& repair);
job::Task<Result<void>> mend_directory_loop(Repair& repair);
job::Task<Result<void>> mend_xattr_counts(Repair& repair);
job::Task<Result<void>> tell_handle_not_given(Repair& repair);
job::Task<Result<void>> tell_unknown_target(Repair& repair);
// repair_files.cc
job::Task<Result<void>> mend_open_count(Repair& repair);
job::Task<Result<void>> mend_size_not_asked(Repair& repair);
job::Task<Result<void>> mend_truncate_without_intent(Repair& repair);
job::Task<Result<void>> mend_stray_intent(Repair& repair);
job::Task<Result<void>> mend_stray_unsettled(Repair& repair);
job::Task<Result<void>> mend_stray_open(Repair& repair);
job::Task<Result<void>> mend_stray_xattr(Repair& repair);
job::Task<Result<void>> mend_stray_answer(Repair& repair);
job::Task<Result<void>> mend_removal_of_live_file(Repair& repair);
job::Task<Result<void>> mend_wrong_size(Repair& repair);
// repair.cc
job::Task<Result<void>> tell_unreadable_record(Repair& repair);

/// Removes an entry from a directory, and corrects the directory's counts as far as possible.
job::Task<Result<void>> take_entry(Operation& operation, Handle directory, std::string name, bool of_directory);
/// Gives an object without a name one in /lost+found, which is created if needed. Puts the object. Yields the path.
job::Task<Result<std::string>> put_in_lost_found(Operation& operation, InodeRecord& object);

}  // namespace spate::meta
