// SPDX-License-Identifier: Apache-2.0
// Link: one connection of two processes: the socket, the bells, the shared segment.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/shm/arena.h"
#include "bmi/shm/endpoint.h"
#include "bmi/shm/hello.h"
#include "bmi/shm/lane.h"
#include "bmi/shm/packet.h"

namespace spate::bmi::shm {

class Link;
class Peer;

/// The target of an epoll event.
struct Pollable {
  enum class Kind : std::uint8_t { kSocket, kBell, kListener, kTimer, kForeign };
  explicit Pollable(Kind k, Link* l = nullptr) : kind(k), link(l) {}
  const Kind kind;
  Link* const link;  // kSocket, kBell
};

/// A descriptor that the peer passed and that the caller has not taken yet.
struct PassedDescriptor {
  Tag tag;
  UniqueFd fd;
};

/// Pinned; the module owns it. Not thread-safe: the module's lock guards it. It makes no decisions: the module and the
/// peer own deadlines, states and operations. Life cycle: constructed with a socket -> handshake, which makes or maps
/// the segment -> close() -> destroyed at the module's next turn, which unmaps the memory.
class Link {
 public:
  Link(UniqueFd socket, Side own_side) : side(own_side), socket_(std::move(socket)) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { close(); }

  int socket() const { return socket_.get(); }
  /// This side's bell; made at the first call. -1: out of descriptors.
  int own_bell();

  /// Acceptor: makes the segment and returns it, for the Welcome.
  Result<UniqueFd> make_segment(const Geometry& geometry, std::uint16_t version = kVersionMax);
  /// Connector: checks and maps the memory that came with the Welcome. kProtocol: it cannot be shared safely.
  Result<void> map_segment(const Geometry& geometry, int memory, std::uint16_t version = kVersionMax);
  /// As make_segment() and map_segment(), for the full lanes. Call them only if wants_full_lanes().
  Result<UniqueFd> make_full_lanes();
  Result<void> map_full_lanes(int memory);
  /// Whether the link's lanes are narrow, and the full ones are not there yet.
  bool wants_full_lanes() const { return narrow_in(MessageClass::kControl) && !full_lanes_; }
  bool has_full_lanes() const { return static_cast<bool>(full_lanes_); }
  void set_remote_bell(UniqueFd bell) { remote_bell_ = std::move(bell); }

  SideBlock& mine() { return *mine_; }
  SideBlock& theirs() { return *theirs_; }
  LaneWriter& out(MessageClass c) { return out_[index_of(c)]; }
  LaneReader& in(MessageClass c) { return in_[index_of(c)]; }

  /// Whether the side still uses the narrow lane of the class. Every link begins with narrow lanes, except in version
  /// 1. After a kWiden frame a side continues in the full lane, which must be there.
  bool narrow_out(MessageClass c) const { return narrow_out_[index_of(c)]; }
  bool narrow_in(MessageClass c) const { return narrow_in_[index_of(c)]; }
  void widen_out(MessageClass c);
  void widen_in(MessageClass c);

  /// Wakes the other side if it waits for any of `bits`.
  void wake(std::uint32_t bits);
  /// Announces what this side waits for. Check once more afterwards, before sleeping.
  void wait_for(std::uint32_t bits) { mine_->waits.fetch_or(bits, std::memory_order_seq_cst); }
  void wait_no_more(std::uint32_t bits) { mine_->waits.fetch_and(~bits, std::memory_order_relaxed); }
  /// Whether the memory that the peer offered is still unchanged. False when the peer has begun to close the link.
  /// Reads of that memory before the call happen before the answer.
  bool still_offered() { return theirs_->closed.fetch_or(0, std::memory_order_acq_rel) == 0; }

  /// Sends a note. 0, or errno.
  int send_note(const Note& note, int descriptor);
  /// Passes an arena of this side to the peer, which can then read located messages in it. False: it cannot be passed
  /// now.
  bool show_arena(const ArenaPool& pool, std::uint32_t number);

  /// Tells the other side and closes the socket. Memory stays mapped until the link is destroyed.
  void close();

  // The module sets the following members.
  const Side side;
  Peer* peer = nullptr;
  std::string remote;   // for people
  std::string reached;  // PeerInfo::reached
  Credentials credentials;
  bool trusted = false;          // the other process could control this one anyway: it has the same user, or is root's
  bool connecting = false;       // connect() must be tried again, since the other side was busy
  bool closed = false;           // the link is freed at the next turn
  bool polled = false;           // the module reads the link in each turn
  std::uint32_t idle_turns = 0;  // turns without work, while polled
  MonoTime accepted_at;          // when this side accepted the link
  MonoTime give_up = MonoTime::never();   // when to give up the handshake
  MonoTime deadline = MonoTime::never();  // the module's entry in its list of deadlines
  ContextId context;                      // the listener's, while there is no peer
  ForeignArenas arenas;
  std::deque<PassedDescriptor> descriptors;
  Pollable socket_event{Pollable::Kind::kSocket, this};
  Pollable bell_event{Pollable::Kind::kBell, this};

 private:
  void lay_out_segment(std::uint16_t version);
  void lay_out_full_lanes();

  UniqueFd socket_;
  UniqueFd bell_;
  UniqueFd remote_bell_;
  Geometry geometry_;  // of the full lanes; in version 1 of the segment's
  Mapping segment_;
  Mapping full_lanes_;
  SideBlock* mine_ = nullptr;
  SideBlock* theirs_ = nullptr;
  std::array<LaneWriter, kClasses> out_;
  std::array<LaneReader, kClasses> in_;
  std::array<LaneWriter, kClasses> full_out_;
  std::array<LaneReader, kClasses> full_in_;
  std::array<bool, kClasses> narrow_out_{};
  std::array<bool, kClasses> narrow_in_{};
  std::uint32_t arenas_shown_ = 0;  // how many arenas of this side the peer has
};

}  // namespace spate::bmi::shm
