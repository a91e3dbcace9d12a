// SPDX-License-Identifier: Apache-2.0
#include "tools/modes.h"

#include <string>

namespace spate::tools {
namespace {

constexpr std::uint32_t kAll = 07777;
constexpr std::uint32_t kUser = 04700;
constexpr std::uint32_t kGroup = 02070;
constexpr std::uint32_t kOther = 01007;

/// The bits of one letter of "ugoa"; 0: another letter.
std::uint32_t class_of(char letter) {
  switch (letter) {
    case 'u': return kUser;
    case 'g': return kGroup;
    case 'o': return kOther;
    case 'a': return kAll;
    default: return 0;
  }
}

/// The bits, in all classes, of one letter of "rwxst"; 0: another letter.
std::uint32_t bits_of(char letter) {
  switch (letter) {
    case 'r': return 0444;
    case 'w': return 0222;
    case 'x': return 0111;
    case 's': return 06000;
    case 't': return 01000;
    default: return 0;
  }
}

int shift_of(char letter) { return letter == 'u' ? 6 : letter == 'g' ? 3 : letter == 'o' ? 0 : -1; }

bool is_operation(char letter) { return letter == '+' || letter == '-' || letter == '='; }

}  // namespace

Result<void> ModeChange::parse_clauses(std::string_view text, std::uint32_t umask, std::vector<Clause>& clauses) {
  const Error wrong(Errc::kInvalidArgument, "\"" + std::string(text) + "\" is not a mode: expected 0755, or u+x,go-w");
  std::size_t at = 0;
  std::uint32_t whose = 0;
  for (; at < text.size() && class_of(text[at]) != 0; ++at) whose |= class_of(text[at]);
  const std::uint32_t named = whose == 0 ? kAll : whose;
  if (whose == 0) whose = kAll & ~umask;
  if (at == text.size()) return wrong;
  while (at < text.size()) {
    Clause clause;
    clause.whose = whose;
    clause.cleared = named;
    clause.operation = text[at];
    if (!is_operation(text[at++])) return wrong;
    for (; at < text.size() && !is_operation(text[at]); ++at) {
      if (text[at] == 'X') {
        clause.execute_if_any = true;
      } else if (shift_of(text[at]) >= 0) {
        clause.copied_from = shift_of(text[at]);
      } else if (bits_of(text[at]) != 0) {
        clause.bits |= bits_of(text[at]);
      } else {
        return wrong;
      }
    }
    clauses.push_back(clause);
  }
  return {};
}

Result<ModeChange> ModeChange::parse(std::string_view text, std::uint32_t umask) {
  ModeChange change;
  const bool octal = !text.empty() && text.size() <= 5 && text.find_first_not_of("01234567") == std::string_view::npos;
  if (octal) {
    change.absolute_ = true;
    for (const char digit : text) change.mode_ = change.mode_ * 8 + static_cast<std::uint32_t>(digit - '0');
    if (change.mode_ > kAll)
      return Error::told(Errc::kInvalidArgument, std::string(text) + " is not a mode: the largest is 7777 (octal)");
    return change;
  }
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    SPATE_TRY(std::ignore, parse_clauses(rest.substr(0, comma), umask, change.clauses_));
    if (more) rest.remove_prefix(comma + 1);
  }
  return change;
}

std::uint32_t ModeChange::apply(const Clause& clause, std::uint32_t mode, bool directory) {
  std::uint32_t bits = clause.bits;
  if (clause.execute_if_any && (directory || (mode & 0111U) != 0)) bits |= 0111;
  if (clause.copied_from >= 0) bits |= (mode >> static_cast<unsigned>(clause.copied_from) & 7U) * 0111U;
  bits &= clause.whose;
  switch (clause.operation) {
    case '+': return mode | bits;
    case '-': return mode & ~bits;
    default: {
      // setuid and setgid of a directory stay unless they are named, as with GNU chmod.
      const std::uint32_t kept = directory ? 06000U & ~clause.bits : 0U;
      return (mode & ~(clause.cleared & ~kept)) | bits;
    }
  }
}

std::uint32_t ModeChange::apply(std::uint32_t mode, bool directory) const {
  if (absolute_) return mode_;
  for (const Clause& clause : clauses_) mode = apply(clause, mode, directory);
  return mode & kAll;
}

}  // namespace spate::tools
