// SPDX-License-Identifier: Apache-2.0
// handles_of(): the handles in a message. So a meta server checks those of every request, also of requests that are yet
// to be written.
#pragma once

#include <optional>
#include <type_traits>
#include <vector>

#include "model/ids.h"
#include "wire/archive.h"

namespace spate::wire {

/// Calls `visit(Handle&)` for each handle among the fields of a message that is not 0: an archive as Writer and Reader.
/// It does not look into values that have a codec of their own (layouts, capabilities), which name no object of a
/// request, nor into opaque bytes: the requests in a ChangeBatchRequest are visited when they are decoded.
template <typename Visit>
class HandleVisitor {
 public:
  explicit HandleVisitor(Visit& visit) : visit_(visit) {}

  template <typename... T>
  void operator()(T&... values) {
    (look(values), ...);
  }

 private:
  void look(Handle& handle) { visit_(handle); }
  template <typename T>
  void look(std::vector<T>& values) {
    if constexpr (std::is_class_v<T>) {
      for (T& value : values) look(value);
    }
  }
  template <typename T>
  void look(std::optional<T>& value) {
    if (value) look(*value);
  }
  template <typename T>
  void look(T& value) {
    if constexpr (HasFields<T, HandleVisitor>) value.fields(*this);
  }

  Visit& visit_;
};

template <typename Message, typename Visit>
void visit_handles(Message& message, Visit visit) {
  HandleVisitor<Visit> visitor(visit);
  if constexpr (HasFields<Message, HandleVisitor<Visit>>) message.fields(visitor);
}

/// The handles of the message, in the order of its fields, without those that are 0.
template <typename Message>
std::vector<Handle> handles_of(const Message& message) {
  std::vector<Handle> handles;
  visit_handles(const_cast<Message&>(message), [&handles](Handle handle) {  // fields() changes nothing here
    if (handle) handles.push_back(handle);
  });
  return handles;
}

}  // namespace spate::wire
