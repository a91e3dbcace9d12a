// SPDX-License-Identifier: Apache-2.0
// Receiver: the receiving half of the protocol with one peer: matching, credit that goes back, answers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "bmi/match_table.h"
#include "bmi/protocol/credit.h"
#include "bmi/protocol/limits.h"
#include "bmi/protocol/module_state.h"
#include "bmi/protocol/path.h"

namespace spate::bmi::protocol {

/// Part of PeerBase; the module's lock guards it. Life cycle: grant() for each handshake -> open() when the connection
/// is up -> messages -> reset() when it is lost, and grant() again. Receives may be posted and cancelled at any time.
///
/// It never blocks and never calls the core: it reports in ModuleState::outbox and queues answers in the Path, which
/// the module flushes. Another process wrote everything that arrives. Functions that return bool return false when that
/// process breaks the protocol, and the module drops the peer.
class Receiver {
 public:
  Receiver(ModuleState& module, Path& path, PeerRecord& owner, std::uint64_t seed);
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  ~Receiver();

  /// The limits for the peer on its new connection. The window is smaller while the caller has not taken the messages
  /// of the last connection. Resets the credit.
  Limits grant();
  void open();
  /// Drops the messages that have arrived and the order of the posted receives. It ends no operation: PeerBase::reset()
  /// does.
  void reset();

  /// A receive: takes a message that has arrived, or waits in the match table (kPosted).
  void post(Op& op);
  /// Cancels an operation of this half: in state kPosted or a later one.
  void cancel(Op& op);

  // A message arrives. take() is for modules that get a whole frame or packet at a time; `first` and `second` are its
  // payload. begin(), whole() and abort() are for a module that copies the bytes itself.
  bool take(Incoming& incoming, const Header& header, ByteView first, ByteView second = {});
  /// The message begins: sets where its payload goes.
  bool begin(Incoming& incoming, const Header& header);
  /// The last of its bytes has been copied.
  void whole(Incoming& incoming);
  /// The sender gave up, and the rest of the message will not come.
  bool abort(Incoming& incoming);

  /// For a kAnnounce, or a kReady that is located. `source`: where the message lies, if this side can read it there.
  bool on_announce(const Header& header, std::vector<Extent>&& source);
  bool on_no_data(const Header& header);
  void on_withdraw(const Header& header);

  /// The module has read the whole message of a kPulling operation.
  void pulled(Op& op);
  /// Tells the peer that this side reads the located message no more.
  void answer_taken(const Op& op);

  /// The caller took unexpected messages of `charge`.
  void consumed(std::uint64_t charge) { undelivered_ -= std::min(undelivered_, charge); }
  void give_back(MessageClass c, std::uint64_t cost) { state_of(c).credit.consume(cost); }
  /// Credit that must go back to the peer. The module's next frame carries it.
  std::uint64_t owed(MessageClass c) const { return classes_[index_of(c)].credit.owed; }
  std::uint32_t take_owed(MessageClass c) { return state_of(c).credit.take_owed(); }
  /// Whether the peer might wait for the credit that this side owes.
  bool owes_much(MessageClass c) const { return owed(c) > kept_back_[index_of(c)]; }

  /// Whether a receive of the class waits for a message.
  bool expects(MessageClass c) const { return !classes_[index_of(c)].posted.empty(); }
  /// Whether no message is buffered, and the core has none.
  bool empty() const;

 private:
  struct ClassState {
    explicit ClassState(std::uint64_t seed) : posted(seed), arrived(seed) {}
    ReceiveCredit credit;
    std::uint32_t announcements = 0;  // of messages without a receive
    MatchTable posted;                // receives
    MatchTable arrived;               // messages without a receive
  };

  ClassState& state_of(MessageClass c) { return classes_[index_of(c)]; }
  bool charge(MessageClass c, std::uint64_t cost);
  bool on_data(Incoming& incoming);
  void receive_into(Incoming& incoming, Op& op);
  static void fill(Incoming& incoming, ByteView bytes);
  void match_or_post(Op& op);
  void put_back(Op& op);
  void take_arrived(Op& op, std::unique_ptr<Arrived> arrived);
  void clear(Op& op, std::uint64_t length, std::uint64_t remote_id, std::vector<Extent>&& source);
  void pull(Op& op, std::uint64_t remote_id, std::vector<Extent>&& source);
  void answer(FrameType type, MessageClass c, std::uint64_t id);
  Op* own_receive(std::uint64_t id);
  void drop_arrived();

  ModuleState& module_;
  Path& path_;
  PeerRecord& owner_;
  const std::uint64_t seed_;
  std::array<ClassState, kClasses> classes_;
  std::array<std::uint64_t, kClasses> kept_back_{};  // how much of the owed credit may wait until a frame carries it
  std::uint64_t undelivered_ = 0;                    // charge of unexpected messages that the caller has not taken
};

}  // namespace spate::bmi::protocol
