// SPDX-License-Identifier: Apache-2.0
// ChangePlan: what a request to the meta server may change, as far as the client knows before the answer comes.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/meta_messages.h"
#include "wire/xattr_messages.h"

namespace spate::client {

/// A value that refers to its request, which therefore must outlive the plan.
struct ChangePlan {
  struct ChangedName {
    const wire::NamePath* where = nullptr;
    bool entry = false;  // the name is added, removed or given to another object; false: only the object changes
    bool fresh = false;  // if the name exists, the request changes nothing
  };
  /// What happens to the data of the files that the request touches.
  enum class Data : std::uint8_t {
    kMayChange,  // another open may change it from now on, or it was truncated
    kStays,      // only attributes and names change
    kOpened,     // the request may make one file, and opens it for writing; the reply tells which
  };
  bool known = false;  // false: it may change anything
  std::vector<ChangedName> places;
  std::vector<Handle> objects;
  Data data = Data::kMayChange;
  bool removes_directory = false;
};

template <typename Request>
ChangePlan plan_of(const Request&) {
  return {};
}
inline ChangePlan plan_of(const wire::CreateRequest& r) {
  if ((r.open_flags & wire::kOpenTemporary) != 0) return {true, {}, {}};
  const bool fresh = (r.open_flags & wire::kOpenExclusive) != 0 || r.type != FileType::kRegular;
  const bool writes = r.type == FileType::kRegular && (r.open_flags & wire::kOpenWrite) != 0;
  return {true, {{&r.where, true, fresh}}, {}, writes ? ChangePlan::Data::kOpened : ChangePlan::Data::kMayChange};
}
inline ChangePlan plan_of(const wire::MkdirRequest& r) {
  return {true, {{&r.where, true, true}}, {}, ChangePlan::Data::kStays};
}
inline ChangePlan plan_of(const wire::SymlinkRequest& r) {
  return {true, {{&r.where, true, true}}, {}, ChangePlan::Data::kStays};
}
inline ChangePlan plan_of(const wire::LinkRequest& r) {
  return {true, {{&r.existing, false, false}, {&r.where, true, true}}, {}, ChangePlan::Data::kStays};
}
inline ChangePlan plan_of(const wire::UnlinkRequest& r) {
  return {true, {{&r.where, true, false}}, {}, ChangePlan::Data::kStays};
}
inline ChangePlan plan_of(const wire::RmdirRequest& r) {
  return {true, {{&r.where, true, false}}, {}, ChangePlan::Data::kStays, true};
}
inline ChangePlan plan_of(const wire::RenameRequest& r) {
  const bool fresh = (r.flags & wire::kRenameNoReplace) != 0;
  return {true, {{&r.from, true, false}, {&r.to, true, fresh}}, {}, ChangePlan::Data::kStays};
}
inline ChangePlan plan_of(const wire::OpenRequest& r) { return {true, {{&r.where, false, false}}, {}}; }
inline ChangePlan plan_of(const wire::SetattrRequest& r) {
  return {true, {{&r.where, false, false}}, {}, ChangePlan::Data::kStays};
}
inline ChangePlan plan_of(const wire::TruncateRequest& r) { return {true, {{&r.where, false, false}}, {}}; }
inline ChangePlan plan_of(const wire::SetxattrRequest& r) {
  return {true, {{&r.where, false, false}}, {}, ChangePlan::Data::kStays};
}
inline ChangePlan plan_of(const wire::RemovexattrRequest& r) {
  return {true, {{&r.where, false, false}}, {}, ChangePlan::Data::kStays};
}
inline ChangePlan plan_of(const wire::CloseRequest& r) { return {true, {}, {r.handle}}; }
inline ChangePlan plan_of(const wire::CloseWritersRequest& r) { return plan_of(r.close); }

}  // namespace spate::client
