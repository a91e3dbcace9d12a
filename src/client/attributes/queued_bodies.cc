// SPDX-License-Identifier: Apache-2.0
#include "client/attributes/queued_bodies.h"

#include <utility>

#include "model/defect.h"

namespace spate::client {

Bytes creation_of(ObjectToMake made) {
  made.where.flags = 0;
  switch (made.type) {
    case FileType::kDirectory: {
      wire::MkdirRequest request;
      request.where = made.where;
      request.attributes = made.attributes;
      return encoded(request);
    }
    case FileType::kSymlink: {
      wire::SymlinkRequest request;
      request.where = made.where;
      request.target = made.target;
      request.attributes = made.attributes;
      return encoded(request);
    }
    default: {
      wire::CreateRequest request;
      request.where = made.where;
      request.attributes = made.attributes;
      request.open_flags = static_cast<std::uint8_t>(made.open_flags | wire::kOpenExclusive);
      return encoded(request);
    }
  }
}

AfterData after_data(Handle handle, const ChangesAfterData::Held& file, const std::optional<wire::DataSummary>& data) {
  if (file.closed) {
    wire::CloseRequest request;
    request.handle = handle;
    request.rights = file.rights;
    request.data = data;
    request.atime = file.later.atime;
    if (!planted(Defect::kDataTakesTimes)) request.mtime = file.later.mtime;
    request.mode = file.later.mode;
    return {wire::Op::kClose, encoded(request)};
  }
  wire::SetattrRequest request;
  request.where.start = handle;
  request.atime = file.later.atime;
  request.mtime = file.later.mtime;
  request.mode = file.later.mode;
  if (request.mtime) request.data = data;
  return {wire::Op::kSetattr, encoded(request)};
}

Bytes removal_of(wire::NamePath where, wire::Op op) {
  where.flags = 0;
  if (op == wire::Op::kRmdir) return encoded(wire::RmdirRequest{std::move(where)});
  return encoded(wire::UnlinkRequest{std::move(where)});
}

wire::Op creation_op(FileType type) {
  if (type == FileType::kDirectory) return wire::Op::kMkdir;
  return type == FileType::kSymlink ? wire::Op::kSymlink : wire::Op::kCreate;
}

}  // namespace spate::client
