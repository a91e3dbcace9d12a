// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/note_reader.h"

#include <utility>

namespace spate::bmi::shm {

bool NoteReader::read(Link& link) {
  constexpr int kMost = 64;  // after this many notes other links get their turn
  for (int i = 0; i < kMost; ++i) {
    Packet packet;
    receive_packet(link.socket(), packet);
    if (packet.status == Packet::Status::kNothing) return true;
    if (packet.status == Packet::Status::kClosed) return false;
    if (on_note(link, packet)) continue;
    state_.lose_later(*link.peer, Errc::kProtocol);
    return true;
  }
  return true;
}

bool NoteReader::on_note(Link& link, Packet& packet) {
  const std::optional<Note> note = decode_note(packet.view());
  if (!note) return false;
  switch (note->kind) {
    case Note::Kind::kBell: polled_.add(link); return true;
    case Note::Kind::kArena: return on_arena(link, *note, packet);
    case Note::Kind::kDescriptor: on_descriptor(link, *note, packet); return true;
    case Note::Kind::kLanes: {
      const bool fits = link.side == Side::kConnector && packet.descriptor_count == 1 && link.wants_full_lanes();
      return fits && link.map_full_lanes(packet.descriptors[0].get()).has_value();
    }
  }
  return false;
}

bool NoteReader::on_arena(Link& link, const Note& note, Packet& packet) {
  if (link.peer->unauthenticated) return false;  // an unauthenticated peer may not make this process map memory
  const Result<void> added = link.arenas.add(note.number, std::move(packet.descriptors[0]), note.value);
  if (!added) state_.peer_log.peer_dropped(link.remote, added.error().message());
  return added.has_value();
}

void NoteReader::on_descriptor(Link& link, const Note& note, Packet& packet) {
  const ShmOptions& options = state_.shm_options;
  const bool server = link.side == Side::kConnector;
  const std::size_t kept = server ? options.descriptors_from_servers : options.descriptors_from_clients;
  if (packet.descriptor_count == 1 && link.descriptors.size() < kept) {
    link.descriptors.push_back(PassedDescriptor{Tag(note.value), std::move(packet.descriptors[0])});
  } else {
    ++state_.shm_counters.dropped_descriptors;
  }
}

}  // namespace spate::bmi::shm
