// SPDX-License-Identifier: Apache-2.0
#include "nbd/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/secret_file.h"
#include "nbd/access.h"
#include "tls/openssl.h"

namespace spate::nbd {
namespace {

constexpr std::size_t kMinKeyBytes = 16;
constexpr std::size_t kMaxKeyBytes = 64;
constexpr std::size_t kMaxKeyFileBytes = 1U << 20U;

using tls::Owned;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<Bytes> parse_hex(std::string_view text) {
  if (text.size() % 2 != 0 || text.size() / 2 < kMinKeyBytes || text.size() / 2 > kMaxKeyBytes)
    return Errc::kInvalidArgument;
  Bytes bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_digit(text[i]);
    const int low = hex_digit(text[i + 1]);
    if (high < 0 || low < 0) return Errc::kInvalidArgument;
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return bytes;
}

void add_name(const ASN1_STRING* name, std::vector<std::string>& out) {
  unsigned char* text = nullptr;
  const int size = ::ASN1_STRING_to_UTF8(&text, name);
  if (size < 0) return;
  const std::string_view view(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  // A name with a NUL in it could be mistaken for another one.
  if (!view.empty() && view.find('\0') == std::string_view::npos)
    out.push_back(std::string(kCertificate) + std::string(view));
  OPENSSL_free(text);
}

/// The common names and DNS names of the peer's certificate, which OpenSSL has checked (use_certificates()).
void add_certificate_names(SSL* ssl, std::vector<std::string>& out) {
  if ((::SSL_get_verify_mode(ssl) & SSL_VERIFY_PEER) == 0 || ::SSL_get_verify_result(ssl) != X509_V_OK) return;
  X509* const certificate = ::SSL_get1_peer_certificate(ssl);
  if (certificate == nullptr) return;
  X509_NAME* const subject = ::X509_get_subject_name(certificate);
  for (int at = -1; (at = ::X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) {
    add_name(::X509_NAME_ENTRY_get_data(::X509_NAME_get_entry(subject, at)), out);
  }
  auto* const others =
      static_cast<GENERAL_NAMES*>(::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(others); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(others, i);
    if (name->type == GEN_DNS) add_name(name->d.dNSName, out);
  }
  ::GENERAL_NAMES_free(others);
  ::X509_free(certificate);
}

class TlsTransport final : public Transport {
 public:
  explicit TlsTransport(Owned<SSL> ssl) : ssl_(std::move(ssl)) { SSL_set_app_data(ssl_.get(), this); }
  TlsTransport(const TlsTransport&) = delete;
  TlsTransport& operator=(const TlsTransport&) = delete;

  Result<std::size_t> read(std::span<const iovec> pieces) override {
    ::ERR_clear_error();
    std::size_t n = 0;
    const int done = ::SSL_read_ex(ssl_.get(), pieces[0].iov_base, pieces[0].iov_len, &n);
    if (done == 1) return n;
    return failed(done, read_wants_);
  }
  Result<std::size_t> write(std::span<const iovec> pieces, bool /*more*/) override {
    std::size_t all = 0;
    for (const iovec& piece : pieces) {
      ::ERR_clear_error();
      std::size_t n = 0;
      const int done = ::SSL_write_ex(ssl_.get(), piece.iov_base, piece.iov_len, &n);
      if (done != 1) {
        auto failure = failed(done, write_wants_);
        if (all > 0) return all;  // the next call reports it
        if (failure) return Errc::kConnectionLost;
        return failure;
      }
      all += n;
      if (n < piece.iov_len) return all;
    }
    return all;
  }
  Result<std::size_t> send_file(int /*fd*/, std::uint64_t /*offset*/, std::size_t /*size*/) override {
    return Errc::kNotSupported;
  }
  bool can_send_file() const override { return false; }
  std::vector<std::string> identities() const override {
    std::vector<std::string> found;
    if (::SSL_is_init_finished(ssl_.get()) != 1) return found;
    if (key_in_use()) found.push_back(std::string(kKey) + key_name_);
    add_certificate_names(ssl_.get(), found);
    return found;
  }
  /// The name of the key that was looked up last. Unless the peer has that key or uses none at all, the handshake
  /// fails.
  void set_key_name(std::string_view name) { key_name_ = name; }
  bool has_pending() const override { return ::SSL_pending(ssl_.get()) > 0; }
  Wants read_wants() const override { return read_wants_; }
  Wants write_wants() const override { return write_wants_; }
  void end() override {
    ::ERR_clear_error();
    if (::SSL_is_init_finished(ssl_.get()) == 1) ::SSL_shutdown(ssl_.get());
  }

 private:
  Result<std::size_t> failed(int done, Wants& wants) {
    switch (::SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ: wants = Wants::kReadable; return Errc::kTryAgain;
      case SSL_ERROR_WANT_WRITE: wants = Wants::kWritable; return Errc::kTryAgain;
      case SSL_ERROR_ZERO_RETURN: return std::size_t{0};
      default: ::ERR_clear_error(); return Errc::kConnectionLost;
    }
  }
  /// Whether the peer has used a key. In TLS 1.3 a key appears as a resumed session (no others are kept); before, it is
  /// a kind of cipher.
  bool key_in_use() const {
    if (key_name_.empty()) return false;
    if (::SSL_version(ssl_.get()) >= TLS1_3_VERSION) return ::SSL_session_reused(ssl_.get()) == 1;
    const SSL_CIPHER* const cipher = ::SSL_get_current_cipher(ssl_.get());
    return cipher != nullptr && ::SSL_CIPHER_get_auth_nid(cipher) == NID_auth_psk;
  }
  Owned<SSL> ssl_;
  std::string key_name_;
  Wants read_wants_ = Wants::kReadable;
  Wants write_wants_ = Wants::kWritable;
};

class OpenSslContext final : public TlsContext {
 public:
  OpenSslContext() : context_(::SSL_CTX_new(::TLS_server_method())) {}

  Result<void> configure(const TlsFiles& files);
  Result<std::unique_ptr<Transport>> accept(int socket) override {
    Owned<SSL> ssl(::SSL_new(context_.get()));
    if (ssl == nullptr || ::SSL_set_fd(ssl.get(), socket) != 1) return tls::openssl_error("TLS");
    ::SSL_set_accept_state(ssl.get());
    return std::unique_ptr<Transport>(std::make_unique<TlsTransport>(std::move(ssl)));
  }

 private:
  Result<void> use_certificates(const std::string& folder);
  Result<void> use_keys(const std::string& file);
  static unsigned find_key(SSL* ssl, const char* identity, unsigned char* key, unsigned room);

  Owned<SSL_CTX> context_;
  TlsKeys keys_;
};

Result<void> OpenSslContext::configure(const TlsFiles& files) {
  if (context_ == nullptr) return tls::openssl_error("TLS");
  SSL_CTX* const context = context_.get();
  ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_dh_auto(context, 1);
  SSL_CTX_set_app_data(context, this);
  if (!files.folder.empty()) {
    SPATE_TRY(std::ignore, use_certificates(files.folder));
  }
  if (!files.keys.empty()) {
    SPATE_TRY(std::ignore, use_keys(files.keys));
  }
  return {};
}

Result<void> OpenSslContext::use_certificates(const std::string& folder) {
  SSL_CTX* const context = context_.get();
  const std::string certificate = folder + "/server-cert.pem";
  const std::string key = folder + "/server-key.pem";
  const std::string authority = folder + "/ca-cert.pem";
  SPATE_TRY(std::ignore, tls::use_certificate(context, certificate, key));
  struct stat st{};
  if (::stat(authority.c_str(), &st) != 0) return {};
  if (::SSL_CTX_load_verify_locations(context, authority.c_str(), nullptr) != 1) return tls::openssl_error(authority);
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return {};
}

Result<void> OpenSslContext::use_keys(const std::string& file) {
  std::ifstream in(file);
  if (!in) return Error(Errc::kNotFound, "read the keys in " + file);
  SPATE_TRY(std::ignore, check_secret_file(file, 0077));
  std::string text(kMaxKeyFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxKeyFileBytes) return Error(Errc::kInvalidArgument, file + " is larger than 1 MiB");
  auto keys = parse_tls_keys(text);
  if (!keys) return std::move(keys).error().within(file);
  keys_ = *std::move(keys);
  ::SSL_CTX_set_psk_server_callback(context_.get(), &OpenSslContext::find_key);  // TLS 1.3 calls it, too
  return {};
}

unsigned OpenSslContext::find_key(SSL* ssl, const char* identity, unsigned char* key, unsigned room) {
  const auto* self = static_cast<const OpenSslContext*>(SSL_CTX_get_app_data(::SSL_get_SSL_CTX(ssl)));
  if (identity == nullptr) return 0;
  const auto found = self->keys_.find(identity);
  if (found == self->keys_.end() || found->second.size() > room) return 0;
  std::memcpy(key, found->second.data(), found->second.size());
  static_cast<TlsTransport*>(SSL_get_app_data(ssl))->set_key_name(identity);
  return static_cast<unsigned>(found->second.size());
}

}  // namespace

Result<TlsKeys> parse_tls_keys(std::string_view text) {
  TlsKeys keys;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t colon = line.rfind(':');
    auto key =
        colon == std::string_view::npos ? Result<Bytes>(Errc::kInvalidArgument) : parse_hex(line.substr(colon + 1));
    if (!key || colon == 0) {
      return Error(Errc::kInvalidArgument,
                   "line " + std::to_string(number) + ": not \"name:hex\" with a key of 16 to 64 bytes");
    }
    keys[std::string(line.substr(0, colon))] = *std::move(key);
  }
  if (keys.empty()) return Error(Errc::kInvalidArgument, "no key is in it");
  return keys;
}

Result<std::unique_ptr<TlsContext>> make_tls(const TlsFiles& files) {
  auto context = std::make_unique<OpenSslContext>();
  SPATE_TRY(std::ignore, context->configure(files));
  return std::unique_ptr<TlsContext>(std::move(context));
}

}  // namespace spate::nbd
