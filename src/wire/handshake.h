// SPDX-License-Identifier: Apache-2.0
// The key schedule of the handshake (docs/wire.md, "Handshake"): pure functions of keys and of the bytes sent.
#pragma once

#include "base/kdf.h"
#include "base/umac.h"
#include "model/ids.h"
#include "model/user_key.h"
#include "wire/session_messages.h"

namespace spate::wire {

/// The kind of key file that a handshake uses. It decides which operations the initiator may use.
enum class KeyRole : std::uint8_t { kClient = 1, kServer = 2 };

/// One key file of one file system, as the handshake uses it; or the key of a user, which is derived from one.
struct FileKey {
  FileKey(FsId fs, const Key& file);
  /// The key that a client has been given.
  FileKey(FsId fs, const ClientKey& held);
  /// Identifies the key to the acceptor without revealing it.
  KeyId id() const;
  /// The key between holders of this file and one acceptor. A proof for one server is therefore useless at another.
  Key for_acceptor(KeyRole role, ServerId acceptor) const;
  /// The shared key of TLS between the holders of this key and the servers, where they use no certificates.
  Key for_tls() const;
  /// The key of the user whom these restrictions (an encoded UserKey) name. Servers derive it anew in each handshake.
  FileKey for_user(ByteView restrictions) const;

  Key secret;

 private:
  explicit FileKey(const Key& derived) : secret(derived) {}
};

/// The first version of the protocol with this handshake.
inline constexpr std::uint16_t kTranscriptVersion = 2;

/// Local sockets need no seals: the kernel vouches for both ends. Nor does TLS, whose records are sealed.
inline bool needs_seals(std::string_view reached) {
  return !reached.starts_with("shm://") && !reached.starts_with("tcp+tls://");
}

/// The keys that protect an authenticated connection.
struct SessionKeys {
  std::array<std::byte, Umac64::kKeySize> initiator_seal{};
  std::array<std::byte, Umac64::kKeySize> acceptor_seal{};
  std::array<std::byte, Umac128::kKeySize> initiator_data{};  // of bulk messages
  std::array<std::byte, Umac128::kKeySize> acceptor_data{};
  Key link{};  // for the network module: authenticates bulk connections
};

/// The transcript of one handshake. It is equal on both sides if both have seen the same bytes. Messages are complete,
/// headers included. Order of calls: construct -> server_mac() -> finish(), once -> keys(). Not thread-safe.
class Transcript {
 public:
  /// `reply`: up to its server_mac. `binding`: of the channel below, zeros if it has none.
  Transcript(const Key& key, const Nonce& client_nonce, const Nonce& server_nonce, ByteView hello, ByteView reply,
             const Hash& binding = {});

  Hash server_mac() const;
  /// The value that `finished` must have. `request`: up to `finished`. Call it before keys().
  Hash finish(ByteView request);
  SessionKeys keys() const;

  // For the golden files.
  const Key& base() const { return base_; }
  const Hash& state() const { return state_; }

 private:
  Key base_;
  Hash state_{};
};

}  // namespace spate::wire
