// SPDX-License-Identifier: Apache-2.0
// Negotiation: the handshake of a connection, from the first bytes to the transmission phase. No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "nbd/protocol.h"

namespace spate::nbd {

/// The properties of an export that a client learns. A value.
struct ExportInfo {
  std::string name;
  std::string description;
  std::uint64_t size = 0;           // bytes
  std::uint16_t flags = kHasFlags;  // transmission flags, without kSendDf
  std::uint32_t minimum_block = 1;
  std::uint32_t preferred_block = 4096;
  std::uint32_t maximum_block = kMaxPayload;
};

/// The exports that one client may see. Ask it again each time, since a size may have changed.
class Catalogue {
 public:
  virtual ~Catalogue() = default;
  /// TLS has identified the client (Transport::identities()): from now on the catalogue has the exports that it may
  /// use.
  virtual void identified(std::vector<std::string> /*identities*/) {}
  /// Names, in the order of the list.
  virtual std::vector<std::string> names() = 0;
  /// The empty name means the default export.
  virtual std::optional<ExportInfo> find(std::string_view name) = 0;
  /// The own name of the export that find() would yield, if a server must be asked for its size first (Device::look()).
  /// Default: no export needs that.
  virtual std::optional<std::string> to_look_at(std::string_view /*name*/) { return std::nullopt; }
};

struct NegotiationPolicy {
  bool tls_offered = false;
  bool tls_required = false;  // before TLS, accept only STARTTLS and ABORT
};

/// Takes the client's bytes and yields the answers. The caller need not hold more than kMaxOptionBytes of input: a
/// longer option is skipped as it arrives. Invalid bytes only end the negotiation. One connection. Pinned.
class Negotiation {
 public:
  enum class State : std::uint8_t {
    kTalking,       // wants more bytes
    kStartTls,      // send the output, start TLS, then call tls_started()
    kLook,          // look at the export wanted(), then call looked(); its option stays in the input
    kTransmission,  // the chosen export is served
    kEnd,           // send the output, then close the connection
  };
  /// Longest option that is not skipped, bytes, header included. Names, and hundreds of queries, fit.
  static constexpr std::size_t kMaxOptionBytes = 64U * 1024;

  Negotiation(Catalogue& catalogue, NegotiationPolicy policy) : catalogue_(catalogue), policy_(policy) {}
  Negotiation(const Negotiation&) = delete;
  Negotiation& operator=(const Negotiation&) = delete;

  /// The first bytes of the server.
  static void begin(Bytes& out);
  /// Takes complete messages from the front of `in` and appends the answers to `out`. Returns how many bytes it took.
  /// Ends early if the state is no longer kTalking, and if `out` holds kMaxOptionBytes: send that and call again. With
  /// kMaxOptionBytes in `in` and an empty `out` it always takes something.
  std::size_t consume(ByteView in, Bytes& out);
  State state() const { return state_; }
  /// Drops everything that was negotiated without TLS.
  void tls_started();
  /// In state kLook: the export's own name.
  const std::string& wanted() const { return wanted_; }
  void looked();

  // In state kTransmission.
  const ExportInfo& chosen() const { return chosen_; }
  bool structured() const { return structured_; }
  /// Whether base:allocation was selected for the chosen export.
  bool block_status() const { return structured_ && allocation_of_ == chosen_.name; }

  /// The id of base:allocation.
  static constexpr std::uint32_t kAllocationId = 1;

 private:
  void take_client_flags(std::uint32_t flags);
  bool wants_look(Option option, ByteView data);
  void take_option(Option option, ByteView data, Bytes& out);
  void take_negotiable(Option option, ByteView data, Bytes& out);
  void export_name(ByteView data, Bytes& out);
  void list(ByteView data, Bytes& out);
  void start_tls(ByteView data, Bytes& out);
  void info_or_go(Option option, ByteView data, Bytes& out);
  void structured_reply(ByteView data, Bytes& out);
  void meta_context(Option option, ByteView data, Bytes& out);
  void choose(ExportInfo info);

  Catalogue& catalogue_;
  const NegotiationPolicy policy_;
  State state_ = State::kTalking;
  bool flags_taken_ = false;
  bool no_zeroes_ = false;
  bool tls_ = false;
  bool structured_ = false;
  bool looked_ = false;  // the export of the next option has been looked at
  std::string wanted_;
  std::optional<std::string> allocation_of_;  // the export whose base:allocation is selected, by its own name
  std::uint64_t skip_ = 0;                    // bytes of an option that is too long, still to come
  ExportInfo chosen_;
};

}  // namespace spate::nbd
