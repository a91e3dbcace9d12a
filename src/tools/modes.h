// SPDX-License-Identifier: Apache-2.0
// Modes in the notation of chmod(1). Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spate::tools {

/// A change of permission bits: "0755", or clauses as in "u=rwx,go-w,a+X".
/// Source: POSIX.1-2017, chmod, "Extended description".
class ModeChange {
 public:
  /// kInvalidArgument for text that is no mode. `umask` limits clauses that do not name a class of users.
  static Result<ModeChange> parse(std::string_view text, std::uint32_t umask);

  /// The mode (at most 07777) of an object after the change.
  std::uint32_t apply(std::uint32_t mode, bool directory) const;

 private:
  struct Clause {
    char operation = '=';         // + - =
    std::uint32_t whose = 0;      // bits that may be set, and with + and - changed
    std::uint32_t cleared = 0;    // bits that = clears first
    std::uint32_t bits = 0;       // in all classes; `whose` selects
    bool execute_if_any = false;  // X
    int copied_from = -1;         // shift of the class whose bits are copied; -1: none
  };
  static Result<void> parse_clauses(std::string_view text, std::uint32_t umask, std::vector<Clause>& clauses);
  static std::uint32_t apply(const Clause& clause, std::uint32_t mode, bool directory);

  bool absolute_ = false;
  std::uint32_t mode_ = 0;
  std::vector<Clause> clauses_;
};

}  // namespace spate::tools
