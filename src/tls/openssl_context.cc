// SPDX-License-Identifier: Apache-2.0
#include "tls/openssl_context.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <tuple>
#include <utility>

#include "tls/certificate.h"
#include "tls/openssl.h"
#include "tls/openssl_stream.h"

namespace spate::tls {
namespace {

// In TLS 1.3 a shared key belongs to one hash function, here SHA-256, so only suites with it can use the key.
constexpr const char* kSuites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kKeySuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";

// OpenSSL treats a shared key as a session. A session's context must be the one of the connection.
constexpr std::array<unsigned char, 5> kSessionContext{'s', 'p', 'a', 't', 'e'};

/// Two stamps of a file differ after it was replaced.
struct Stamp {
  std::int64_t changed_ns = -1;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};
using Stamps = std::array<Stamp, 4>;

Stamp stamp_of(const std::string& file) {
  struct stat st{};
  if (file.empty() || ::stat(file.c_str(), &st) != 0) return {};
  return {st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec, st.st_ino, static_cast<std::uint64_t>(st.st_size)};
}

Stamps stamps_of(const Files& files) {
  return {stamp_of(files.authority), stamp_of(files.certificate), stamp_of(files.key), stamp_of(files.revoked)};
}

/// The session that a shared key stands for in TLS 1.3.
SSL_SESSION* session_of(SSL* ssl, const Key& key) {
  constexpr std::array<unsigned char, 2> kAes128GcmSha256{0x13, 0x01};
  Owned<SSL_SESSION> session(::SSL_SESSION_new());
  const SSL_CIPHER* const cipher = ::SSL_CIPHER_find(ssl, kAes128GcmSha256.data());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(key.data());
  const bool made = session != nullptr && cipher != nullptr &&
                    ::SSL_SESSION_set1_master_key(session.get(), bytes, key.size()) == 1 &&
                    ::SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
                    ::SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1 &&
                    ::SSL_SESSION_set1_id_context(session.get(), kSessionContext.data(), kSessionContext.size()) == 1;
  return made ? session.release() : nullptr;
}

int use_own_key(SSL* ssl, const EVP_MD* /*hash*/, const unsigned char** id, std::size_t* size, SSL_SESSION** session) {
  const SharedKey& own = OpenSslStream::of(ssl).own_key();
  *id = reinterpret_cast<const unsigned char*>(own.identity.data());
  *size = own.identity.size();
  *session = session_of(ssl, own.key);
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* id, std::size_t size, SSL_SESSION** session) {
  auto* const keys = static_cast<Keys*>(SSL_CTX_get_app_data(::SSL_get_SSL_CTX(ssl)));
  const auto key = keys->find(ByteView(reinterpret_cast<const std::byte*>(id), size));
  *session = key ? session_of(ssl, *key) : nullptr;
  if (!key) OpenSslStream::of(ssl).asked_for_unknown_key();
  return 1;  // without a session the handshake goes on without a key, and fails
}

/// The callback for ALPN. `user`: this side's list.
int select_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* size, const unsigned char* offered,
                    unsigned offered_size, void* user) {
  const auto& own = *static_cast<const std::string*>(user);
  unsigned char* chosen = nullptr;
  const int how = ::SSL_select_next_proto(&chosen, size, reinterpret_cast<const unsigned char*>(own.data()),
                                          static_cast<unsigned>(own.size()), offered, offered_size);
  *out = chosen;
  return how == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

bool is_number(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

/// Holds the settings that apply to all connections of a process.
class OpenSslContext final : public Context {
 public:
  explicit OpenSslContext(const Settings& settings)
      : settings_(settings), protocols_(1, static_cast<char>(settings.protocol.size())) {
    protocols_ += settings.protocol;
  }
  OpenSslContext(const OpenSslContext&) = delete;
  OpenSslContext& operator=(const OpenSslContext&) = delete;

  Result<void> open() override;
  std::optional<Facts> facts() const override { return facts_; }
  Result<std::unique_ptr<Stream>> connect(int socket, const std::string& host) override;
  Result<std::unique_ptr<Stream>> accept(int socket) override;

 private:
  bool by_key() const { return settings_.files.empty(); }
  Result<Owned<SSL_CTX>> make();
  Result<void> use_files(SSL_CTX* context) const;
  void use_keys(SSL_CTX* context);
  void look_for_new_files();
  Result<std::unique_ptr<OpenSslStream>> stream(int socket, StreamRole role);

  const Settings settings_;
  std::string protocols_;  // as ALPN has it
  Owned<SSL_CTX> context_;
  std::optional<Facts> facts_;
  Stamps stamps_;
};

Result<void> OpenSslContext::open() {
  if (context_ != nullptr) return {};
  const Stamps stamps = stamps_of(settings_.files);
  SPATE_TRY(context_, make());
  stamps_ = stamps;
  if (!by_key()) facts_ = facts_of(context_.get());
  return {};
}

Result<Owned<SSL_CTX>> OpenSslContext::make() {
  Owned<SSL_CTX> made(::SSL_CTX_new(::TLS_method()));
  SSL_CTX* const context = made.get();
  if (context == nullptr) return openssl_error("TLS");
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  ::SSL_CTX_set_ciphersuites(context, by_key() ? kKeySuites : kSuites);
  ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                     SSL_OP_ENABLE_KTLS | SSL_OP_CIPHER_SERVER_PREFERENCE);
  ::SSL_CTX_set_num_tickets(context, 0);
  ::SSL_CTX_set_max_early_data(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_session_id_context(context, kSessionContext.data(), kSessionContext.size());
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  const auto* const protocols = reinterpret_cast<const unsigned char*>(protocols_.data());
  if (::SSL_CTX_set_alpn_protos(context, protocols, static_cast<unsigned>(protocols_.size())) != 0)
    return openssl_error("TLS");
  ::SSL_CTX_set_alpn_select_cb(context, &select_protocol, &protocols_);
  if (by_key()) {
    if (settings_.keys == nullptr) return Error::told(Errc::kInvalidArgument, "TLS has neither certificates nor keys");
    use_keys(context);
    return made;
  }
  SPATE_TRY(std::ignore, use_files(context));
  return made;
}

void OpenSslContext::use_keys(SSL_CTX* context) {
  SSL_CTX_set_app_data(context, settings_.keys.get());
  ::SSL_CTX_set_psk_use_session_callback(context, &use_own_key);
  ::SSL_CTX_set_psk_find_session_callback(context, &find_key);
}

Result<void> OpenSslContext::use_files(SSL_CTX* context) const {
  const Files& files = settings_.files;
  SPATE_TRY(std::ignore, use_certificate(context, files.certificate, files.key));
  if (::SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr) != 1)
    return openssl_error(files.authority);
  if (files.revoked.empty()) return {};
  X509_STORE* const store = ::SSL_CTX_get_cert_store(context);
  X509_LOOKUP* const lookup = ::X509_STORE_add_lookup(store, ::X509_LOOKUP_file());
  if (lookup == nullptr || ::X509_load_crl_file(lookup, files.revoked.c_str(), X509_FILETYPE_PEM) <= 0)
    return openssl_error(files.revoked);
  ::X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  return {};
}

/// Files that were replaced are used from the next connection on. Unusable files change nothing.
void OpenSslContext::look_for_new_files() {
  if (by_key()) return;
  const Stamps stamps = stamps_of(settings_.files);
  if (stamps == stamps_) return;
  stamps_ = stamps;  // also if they cannot be used: this reads them again when they change again
  auto made = make();
  if (made) {
    context_ = *std::move(made);
    facts_ = facts_of(context_.get());
  }
  if (!settings_.note) return;
  settings_.note(made.has_value(),
                 made ? settings_.files.certificate + " and its key, authority and lists were read again"
                      : "the changed files are not used: " + made.error().context());
}

Result<std::unique_ptr<OpenSslStream>> OpenSslContext::stream(int socket, StreamRole role) {
  SPATE_TRY(std::ignore, open());
  look_for_new_files();
  role.by_key = by_key();
  role.protocol = settings_.protocol;
  Owned<SSL> ssl(::SSL_new(context_.get()));
  if (ssl == nullptr) return openssl_error("TLS");
  auto made = std::make_unique<OpenSslStream>(std::move(ssl), socket, std::move(role));
  if (!made->connect_bios()) return openssl_error("TLS");
  return made;
}

Result<std::unique_ptr<Stream>> OpenSslContext::connect(int socket, const std::string& host) {
  SPATE_TRY(auto made, stream(socket, {.connects = true, .by_key = false, .host = host, .protocol = {}}));
  if (by_key()) {
    SPATE_TRY(SharedKey own, settings_.keys->own());
    made->set_own_key(std::move(own));
    return std::unique_ptr<Stream>(std::move(made));
  }
  SSL* const ssl = made->ssl();
  X509_VERIFY_PARAM* const wanted = ::SSL_get0_param(ssl);
  ::X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const bool set = is_number(host) ? ::X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1
                                   : ::X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size()) == 1 &&
                                         SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
  if (!set) return openssl_error("TLS to " + host);
  return std::unique_ptr<Stream>(std::move(made));
}

Result<std::unique_ptr<Stream>> OpenSslContext::accept(int socket) {
  SPATE_TRY(auto made, stream(socket, {}));
  return std::unique_ptr<Stream>(std::move(made));
}

}  // namespace

std::unique_ptr<Context> make_context(const Settings& settings) { return std::make_unique<OpenSslContext>(settings); }

}  // namespace spate::tls
