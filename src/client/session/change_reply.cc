// SPDX-License-Identifier: Apache-2.0
#include "client/session/change_reply.h"

#include <utility>

#include "wire/archive.h"

namespace spate::client {

Result<ChangeReply> read_change_reply(Result<rpc::RawReply> reply) {
  SPATE_TRY(rpc::RawReply raw, std::move(reply));
  ChangeReply out;
  if ((raw.features & wire::kFeatureLeases) != 0) {
    const auto lists = std::make_shared<ChangeLists>();
    wire::Reader reader(raw.body);
    reader(lists->touched);
    if ((raw.features & wire::kFeatureGrants) != 0) reader(lists->granted);
    if (!reader.decoder().ok()) return Error(Errc::kProtocol, "what a change has touched cannot be read");
    raw.body = raw.body.last(reader.decoder().remaining());
    out.lists = lists;
  }
  out.raw = std::move(raw);
  return out;
}

}  // namespace spate::client
