// SPDX-License-Identifier: Apache-2.0
// Sender: the sending half of the protocol with one peer: credit, announcements, cancellation.
#pragma once

#include <array>
#include <cstdint>

#include "bmi/protocol/credit.h"
#include "bmi/protocol/limits.h"
#include "bmi/protocol/module_state.h"
#include "bmi/protocol/path.h"

namespace spate::bmi::protocol {

/// Part of PeerBase; the module's lock guards it. Life cycle: open() -> reset() at the end of the connection, when
/// PeerBase ends all operations -> open() again. It never blocks and never calls the core.
///
/// A small message is sent at once, charged to the peer's credit. A large one, and a small one without credit, is
/// announced. The peer clears it when it has a receive, or reads it by itself if it is located. A message that can be
/// neither sent nor announced waits, and later ones of its class (or later unexpected ones) wait behind it.
class Sender {
 public:
  Sender(ModuleState& module, Path& path, const PeerRecord& owner) : module_(module), path_(path), owner_(owner) {}

  /// `limits`: what the peer allows this side.
  void open(const Limits& limits);
  void reset();

  /// Begins the operation: its message is in the module's queue afterwards, is announced, or waits; or the operation
  /// has failed, since the peer takes no unexpected message of this size. Call it when the class is open; PeerBase
  /// keeps earlier operations. The module flushes afterwards.
  void begin(Op& op);
  /// For a message that leaves within the call and needs no operation. The module has room for it, and no other message
  /// of its class is queued. Charges the message and fills in its header. False: earlier messages wait, there is not
  /// enough credit, or the peer takes no unexpected message of this size.
  bool admit(const Post& post, bool unexpected, Header& header);
  /// The whole message of a kSending operation has left, or a file segment of it could not be read.
  void sent(Op& op);
  void failed(Op& op, Errc status);
  /// Cancels an operation of this half: in one of the states from kWaitCredit to kWithdrawing.
  void cancel(Op& op);

  /// The peer gave back credit. False: the peer broke the protocol.
  bool give(MessageClass c, std::uint64_t bytes);
  /// Sends messages that waited for credit, or to be announced, as far as both suffice.
  void run_waiting();
  /// Whether unexpected messages wait for credit.
  bool waits_for_credit() const { return !unexpected_waiting_.empty(); }
  /// Whether they still lack credit after this has asked the path for credit that came back.
  bool starves();

  // Frames of the peer. False: the peer broke the protocol.
  bool on_clear(const Header& header);
  bool on_taken(const Header& header);
  bool on_withdrawn(const Header& header);

  /// The oldest cancelled send whose memory the peer may still read, or null.
  Op* first_withdrawing() const { return withdrawing_.empty() ? nullptr : &op_of(*withdrawing_.front()); }
  const Limits& limits() const { return remote_; }

 private:
  struct ClassState {
    SendCredit credit;
    std::uint32_t announced = 0;  // not yet cleared or taken
    std::uint32_t withdrawn = 0;  // withdrawn messages that the peer may have cleared before it knew
    NodeList waiting;             // messages that wait to be announced
  };

  ClassState& state_of(MessageClass c) { return classes_[index_of(c)]; }
  bool send_unexpected(Op& op);
  bool send_expected(Op& op);
  bool announce(Op& op, bool located);
  bool charge(Op& op);
  bool charge(MessageClass c, std::uint64_t cost, bool unexpected);
  void fetch_credit(MessageClass c, bool sleeps);
  void transmit(Op& op, FrameType type);
  bool take_back(Op& op);
  void cancel_announced(Op& op);
  void end_withdrawing(Op& op, Errc status);
  Op* own_op(const Header& header);

  ModuleState& module_;
  Path& path_;
  const PeerRecord& owner_;
  Limits remote_;
  std::array<ClassState, kClasses> classes_;
  NodeList unexpected_waiting_;  // messages that wait for credit
  NodeList withdrawing_;
};

}  // namespace spate::bmi::protocol
