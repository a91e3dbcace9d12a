// SPDX-License-Identifier: Apache-2.0
// OpenSslStream: a Stream by OpenSSL.
#pragma once

#include <array>
#include <string>

#include "tls/openssl.h"
#include "tls/stream.h"

namespace spate::tls {

/// Which side it is, and how it proves itself.
struct StreamRole {
  bool connects = false;
  bool by_key = false;        // by a shared key, not by certificates
  std::string host = {};      // connecting: the host that the certificate must name
  std::string protocol = {};  // ALPN
};

/// Life cycle: construct -> connect_bios() -> handshake() until it has ended -> other calls -> destroyed, with
/// OpenSSL's object; the socket is the caller's. Not thread-safe. OpenSSL reads by recv(2). After the handshake it
/// writes into a buffer, which leaves with few calls of send(2); where the kernel encrypts, it writes to the socket
/// itself.
class OpenSslStream final : public Stream {
 public:
  OpenSslStream(Owned<SSL> ssl, int socket, StreamRole role);
  OpenSslStream(const OpenSslStream&) = delete;
  OpenSslStream& operator=(const OpenSslStream&) = delete;

  /// The stream of an SSL object whose application data it is.
  static OpenSslStream& of(SSL* ssl) { return *static_cast<OpenSslStream*>(SSL_get_app_data(ssl)); }
  /// Gives OpenSSL the input and output. False: out of memory.
  bool connect_bios();

  Handshake handshake() override;
  ssize_t read(std::span<const iovec> pieces) override;
  bool ended() const override { return ended_; }
  ssize_t write(std::span<const iovec> pieces) override;
  int flush() override;
  bool kernel_sends() const override { return kernel_sends_; }
  Hash binding() const override { return binding_; }
  std::string description() const override;
  const std::string& failure() const override { return failure_; }
  bool heard_no_tls() const override { return heard_no_tls_; }
  void end() override;

  SSL* ssl() const { return ssl_.get(); }
  /// This side's key, which lives as long as OpenSSL may ask for it.
  void set_own_key(SharedKey key) { own_key_ = std::move(key); }
  const SharedKey& own_key() const { return own_key_; }
  /// The other side has named a key that this side does not have.
  void asked_for_unknown_key() { unknown_key_ = true; }

  // For the BIOs.
  ssize_t receive(void* to, std::size_t size);
  void keep(ByteView bytes) { kept_.insert(kept_.end(), bytes.begin(), bytes.end()); }

 private:
  static constexpr std::size_t kRecord = 16 * 1024;  // the most that one record holds
  enum class Got : std::uint8_t { kBytes, kNothing, kEnd };

  bool begin_data();
  Got read_piece(std::byte* to, std::size_t size, std::size_t& got);
  bool nothing_left() const;
  bool seal(const std::byte* from, std::size_t size);
  bool has_room();
  void fail(std::string why);
  std::string why_failed() const;
  std::string verify_failure() const;
  std::string other() const { return role_.connects ? "the server" : "the client"; }

  Owned<SSL> ssl_;
  const int socket_;
  const StreamRole role_;
  SharedKey own_key_;
  bool unknown_key_ = false;
  bool heard_no_tls_ = false;
  bool kernel_sends_ = false;
  bool ended_ = false;
  int error_ = 0;                // errno at the end; 0: it ended in order
  bool short_ = false;           // the last recv(2) of this read() has left nothing
  Bytes kept_;                   // encrypted bytes; those from sent_ on wait to be sent
  std::size_t sent_ = 0;         // bytes of kept_ that the socket has taken
  std::uint64_t key_bytes_ = 0;  // encrypted under the present key
  std::string failure_;
  Hash binding_{};
};

}  // namespace spate::tls
