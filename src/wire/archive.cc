// SPDX-License-Identifier: Apache-2.0
#include "wire/archive.h"

namespace spate::wire {
namespace {

// One list of fields for both directions; A is a Writer or a Reader.
template <typename A, typename T>
void attributes_fields(A& a, T& v) {
  a(v.handle, v.type, v.mode, v.uid, v.gid, v.project, v.link_count, v.device, v.size, v.allocated_bytes, v.atime,
    v.mtime, v.ctime, v.btime, v.version, v.size_known, v.change_sum);
}

template <typename A, typename T>
void capability_fields(A& a, T& v) {
  a(v.handle, v.rights, v.layout_generation, v.client, v.session_epoch, v.uid, v.gid, v.project, v.expiry, v.mac);
}

template <typename A, typename T>
void ticket_fields(A& a, T& v) {
  a(v.client, v.epoch, v.uid, v.gid, v.expiry, v.mac);
}

}  // namespace

void Writer::write(const Attributes& v) { attributes_fields(*this, v); }
void Writer::write(const Credential& v) { (*this)(v.uid, v.gid, v.groups); }
void Writer::write(const Capability& v) { capability_fields(*this, v); }
void Writer::write(const SessionTicket& v) { ticket_fields(*this, v); }

void Reader::read(Attributes& v) { attributes_fields(*this, v); }
void Reader::read(Credential& v) {
  (*this)(v.uid, v.gid, v.groups);
  if (v.groups.size() > kMaxGroups) in_.fail();
}
void Reader::read(Capability& v) { capability_fields(*this, v); }
void Reader::read(SessionTicket& v) { ticket_fields(*this, v); }

}  // namespace spate::wire
