// SPDX-License-Identifier: Apache-2.0
#include "tls/openssl_stream.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/no_pipe_signal.h"
#include "tls/failures.h"

namespace spate::tls {
namespace {

/// OpenSSL may read this many bytes ahead: several records with one call.
constexpr std::size_t kReadAhead = 64 * 1024;

OpenSslStream& stream_of(BIO* bio) { return *static_cast<OpenSslStream*>(BIO_get_data(bio)); }

int receive_bytes(BIO* bio, char* to, std::size_t size, std::size_t* got) {
  BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY | BIO_FLAGS_IN_EOF);
  const ssize_t n = stream_of(bio).receive(to, size);
  *got = n > 0 ? static_cast<std::size_t>(n) : 0;
  if (n > 0) return 1;
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (n < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
  return 0;
}

int keep_bytes(BIO* bio, const char* from, std::size_t size, std::size_t* kept) {
  stream_of(bio).keep(as_bytes(std::string_view(from, size)));
  *kept = size;
  return 1;
}

long answer(BIO* bio, int what, long /*number*/, void* /*pointer*/) {
  if (what == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return what == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* own_method() {
  static const Owned<BIO_METHOD> method = [] {
    Owned<BIO_METHOD> made(::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "spate"));
    ::BIO_meth_set_read_ex(made.get(), &receive_bytes);
    ::BIO_meth_set_write_ex(made.get(), &keep_bytes);
    ::BIO_meth_set_ctrl(made.get(), &answer);
    return made;
  }();
  return method.get();
}

Owned<BIO> own_bio(OpenSslStream& stream) {
  Owned<BIO> bio(::BIO_new(own_method()));
  if (bio == nullptr) return bio;
  ::BIO_set_data(bio.get(), &stream);
  ::BIO_set_init(bio.get(), 1);
  return bio;
}

}  // namespace

OpenSslStream::OpenSslStream(Owned<SSL> ssl, int socket, StreamRole role)
    : ssl_(std::move(ssl)), socket_(socket), role_(std::move(role)) {
  SSL_set_app_data(ssl_.get(), this);
}

bool OpenSslStream::connect_bios() {
  Owned<BIO> in = own_bio(*this);
  Owned<BIO> out(::BIO_new_socket(socket_, BIO_NOCLOSE));  // which can make the kernel encrypt
  if (in == nullptr || out == nullptr) return false;
  ::SSL_set_bio(ssl_.get(), in.release(), out.release());
  role_.connects ? ::SSL_set_connect_state(ssl_.get()) : ::SSL_set_accept_state(ssl_.get());
  return true;
}

ssize_t OpenSslStream::receive(void* to, std::size_t size) {
  ssize_t n = 0;
  do {
    n = ::recv(socket_, to, size, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  short_ = n < static_cast<ssize_t>(size);
  return n;
}

Handshake OpenSslStream::handshake() {
  if (ended_) return Handshake::kFailed;
  NoPipeSignal quiet;
  ::ERR_clear_error();
  const int done = ::SSL_do_handshake(ssl_.get());
  if (done == 1) return begin_data() ? Handshake::kDone : Handshake::kFailed;
  switch (::SSL_get_error(ssl_.get(), done)) {
    case SSL_ERROR_WANT_READ: return Handshake::kWantsRead;
    case SSL_ERROR_WANT_WRITE: return Handshake::kWantsWrite;
    default: break;
  }
  quiet.raised = true;
  heard_no_tls_ = is_no_tls(::ERR_peek_error());
  fail(why_failed());
  return Handshake::kFailed;
}

/// The handshake has ended well: checks what it has agreed on. False: it counts as failed.
bool OpenSslStream::begin_data() {
  SSL* const ssl = ssl_.get();
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  ::SSL_get0_alpn_selected(ssl, &protocol, &size);
  if (std::string_view(reinterpret_cast<const char*>(protocol), size) != role_.protocol) {
    fail(other() + " speaks another protocol inside of TLS");
    return false;
  }
  if (role_.by_key && ::SSL_session_reused(ssl) != 1) {  // a key appears as a resumed session; there are no others
    fail(other() + " did not prove the key");
    return false;
  }
  constexpr std::string_view kLabel = "EXPORTER-Channel-Binding";
  auto* const to = reinterpret_cast<unsigned char*>(binding_.data());
  if (::SSL_export_keying_material(ssl, to, binding_.size(), kLabel.data(), kLabel.size(), nullptr, 0, 0) != 1) {
    fail("TLS yields no channel binding");
    return false;
  }
  kernel_sends_ = BIO_get_ktls_send(::SSL_get_wbio(ssl)) != 0;
  if (!kernel_sends_) {
    Owned<BIO> out = own_bio(*this);
    if (out == nullptr) {
      fail("there is no memory for TLS");
      return false;
    }
    ::SSL_set0_wbio(ssl, out.release());
  }
  ::SSL_set_default_read_buffer_len(ssl, kReadAhead);
  ::SSL_set_read_ahead(ssl, 1);
  return true;
}

/// Whether another call of recv(2) would find nothing. Then an event will announce more.
bool OpenSslStream::nothing_left() const { return short_ && ::SSL_has_pending(ssl_.get()) == 0; }

OpenSslStream::Got OpenSslStream::read_piece(std::byte* to, std::size_t size, std::size_t& got) {
  while (got < size) {
    ::ERR_clear_error();
    std::size_t n = 0;
    const int done = ::SSL_read_ex(ssl_.get(), to + got, size - got, &n);
    got += n;
    if (done == 1) {
      if (nothing_left()) return Got::kNothing;
      continue;
    }
    switch (::SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE: return Got::kNothing;
      case SSL_ERROR_ZERO_RETURN: ended_ = true; return Got::kEnd;
      default: fail(why_failed()); return Got::kEnd;
    }
  }
  return Got::kBytes;
}

ssize_t OpenSslStream::read(std::span<const iovec> pieces) {
  std::size_t total = 0;
  short_ = false;  // more may have come since the last read, and the event that announced it was for this read
  for (const iovec& piece : pieces) {
    if (ended_) break;
    std::size_t got = 0;
    const Got how = read_piece(static_cast<std::byte*>(piece.iov_base), piece.iov_len, got);
    total += got;
    if (how != Got::kBytes) break;
  }
  if (!kept_.empty()) std::ignore = flush();  // OpenSSL may have made an answer by itself
  if (total > 0) return static_cast<ssize_t>(total);
  if (ended_ && error_ == 0) return 0;
  errno = ended_ ? error_ : EAGAIN;
  return -1;
}

/// Whether more may be encrypted now.
bool OpenSslStream::has_room() {
  if (kept_.size() - sent_ < kMostKept) return true;
  const int error = flush();
  if (error != 0) errno = error;
  return error == 0;
}

/// Encrypts one record. False, with errno: the connection is broken.
bool OpenSslStream::seal(const std::byte* from, std::size_t size) {
  constexpr std::size_t kOverhead = 64;  // more than a record's header, tag and padding to a block
  key_bytes_ += size + kOverhead;
  ::ERR_clear_error();
  if (key_bytes_ >= kKeyBytes) {
    key_bytes_ = 0;
    ::SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  }
  std::size_t n = 0;
  if (::SSL_write_ex(ssl_.get(), from, size, &n) == 1 && n == size) return true;
  fail(why_failed());
  errno = error_;
  return false;
}

ssize_t OpenSslStream::write(std::span<const iovec> pieces) {
  std::array<std::byte, kRecord> small;  // small pieces share a record; filled up to `filled`
  std::size_t filled = 0;
  std::size_t taken = 0;
  const auto refused = [&] { return taken > 0 ? static_cast<ssize_t>(taken) : ssize_t{-1}; };
  const auto seal_small = [&] {
    if (filled == 0) return true;
    if (!seal(small.data(), filled)) return false;
    taken += std::exchange(filled, 0);
    return true;
  };
  if (ended_ || kernel_sends_) {
    errno = EPIPE;
    return -1;
  }
  for (const iovec& piece : pieces) {
    const auto* const from = static_cast<const std::byte*>(piece.iov_base);
    for (std::size_t at = 0; at < piece.iov_len;) {
      if (!has_room()) return seal_small() ? refused() : -1;
      const std::size_t step = std::min(piece.iov_len - at, kRecord - filled);
      if (filled == 0 && step == kRecord) {
        if (!seal(from + at, step)) return refused();
        taken += step;
      } else {
        std::memcpy(small.data() + filled, from + at, step);
        filled += step;
        if (filled == kRecord && !seal_small()) return refused();
      }
      at += step;
    }
  }
  return seal_small() ? static_cast<ssize_t>(taken) : refused();
}

int OpenSslStream::flush() {
  while (sent_ < kept_.size()) {
    const ssize_t n = ::send(socket_, kept_.data() + sent_, kept_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) sent_ += static_cast<std::size_t>(n);
    if (n < 0 && errno != EINTR) return errno;
  }
  sent_ = 0;
  kept_.clear();
  return 0;
}

void OpenSslStream::fail(std::string why) {
  ended_ = true;
  error_ = ECONNRESET;
  if (failure_.empty()) failure_ = std::move(why);
  ::ERR_clear_error();
}

std::string OpenSslStream::why_failed() const {
  if (unknown_key_) return other() + " names a key that this file system does not have";
  const long verified = ::SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK && verified != X509_V_ERR_UNSPECIFIED) return verify_failure();  // a key's is unspecified
  return describe_failure(::ERR_peek_error(), role_.connects, role_.by_key);
}

std::string OpenSslStream::verify_failure() const {
  const long code = ::SSL_get_verify_result(ssl_.get());
  if (role_.by_key) return other() + " shows a certificate, and this side has a key (tls.certificate)";
  return other() + "'s certificate " + describe_certificate_fault(code, role_.host);
}

std::string OpenSslStream::description() const {
  std::string text = std::string(::SSL_get_version(ssl_.get())) + " " + ::SSL_get_cipher_name(ssl_.get());
  text.insert(3, text.starts_with("TLSv") ? " " : "");
  std::erase(text, 'v');
  return text + (role_.by_key ? ", by key" : ", by certificate") + (kernel_sends_ ? ", sent by the kernel" : "");
}

void OpenSslStream::end() {
  if (ended_ || ::SSL_is_init_finished(ssl_.get()) != 1) return;
  NoPipeSignal quiet;
  ::ERR_clear_error();
  quiet.raised = ::SSL_shutdown(ssl_.get()) < 0;
  ::ERR_clear_error();
  std::ignore = flush();
}

}  // namespace spate::tls
