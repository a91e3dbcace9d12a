// SPDX-License-Identifier: Apache-2.0
#include "tools/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/kdf.h"

namespace spate::tools {
namespace {

constexpr long kDays = 36500;  // the certificates need not expire: a member is whoever has a key

struct Free {
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const { ::EVP_PKEY_CTX_free(context); }
  void operator()(EC_GROUP* group) const { ::EC_GROUP_free(group); }
  void operator()(EC_POINT* point) const { ::EC_POINT_free(point); }
  void operator()(BIGNUM* number) const { ::BN_clear_free(number); }
  void operator()(OSSL_PARAM_BLD* builder) const { ::OSSL_PARAM_BLD_free(builder); }
  void operator()(OSSL_PARAM* parameters) const { ::OSSL_PARAM_free(parameters); }
  void operator()(X509* certificate) const { ::X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { ::X509_EXTENSION_free(extension); }
  void operator()(std::FILE* file) const { std::ignore = std::fclose(file); }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using File = std::unique_ptr<std::FILE, Free>;

Error ssl_error(const std::string& what) {
  char text[256] = "unknown error";
  if (const unsigned long code = ::ERR_peek_last_error(); code != 0) ::ERR_error_string_n(code, text, sizeof text);
  ::ERR_clear_error();
  return Error::told(Errc::kIoError, what + ": " + text);
}

Result<PrivateKey> new_key() {
  PrivateKey key(::EVP_EC_gen("P-256"));
  if (key == nullptr) return ssl_error("make a key");
  return key;
}

/// The private number of a key of P-256. Source: FIPS 186-5, sec. A.2.1, with HKDF for the random bits.
std::unique_ptr<BIGNUM, Free> derived_number(const EC_GROUP& group, const Key& secret) {
  constexpr std::string_view kSalt = "spate etcd authority 1";
  constexpr std::size_t kBytes = 40;  // 64 bits more than the order has, so that the remainder is uniform
  const Key key = hkdf_extract(as_bytes(kSalt), secret);
  std::array<std::byte, kBytes> bits{};
  hkdf_expand(key, as_bytes(kSalt), bits);
  std::unique_ptr<BIGNUM, Free> number(
      ::BN_bin2bn(reinterpret_cast<const unsigned char*>(bits.data()), kBytes, nullptr));
  std::unique_ptr<BIGNUM, Free> most(::BN_dup(::EC_GROUP_get0_order(&group)));
  const std::unique_ptr<BN_CTX, decltype(&::BN_CTX_free)> room(::BN_CTX_new(), &::BN_CTX_free);
  const bool good = number != nullptr && most != nullptr && room != nullptr && ::BN_sub_word(most.get(), 1) == 1 &&
                    ::BN_nnmod(number.get(), number.get(), most.get(), room.get()) == 1 &&
                    ::BN_add_word(number.get(), 1) == 1;
  if (!good) number.reset();
  return number;
}

Result<PrivateKey> derived_key(const Key& secret) {
  const std::unique_ptr<EC_GROUP, Free> group(::EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  if (group == nullptr) return ssl_error("make a key");
  const std::unique_ptr<BIGNUM, Free> number = derived_number(*group, secret);
  const std::unique_ptr<EC_POINT, Free> point(::EC_POINT_new(group.get()));
  std::array<unsigned char, 65> public_part{};
  const bool computed = number != nullptr && point != nullptr &&
                        ::EC_POINT_mul(group.get(), point.get(), number.get(), nullptr, nullptr, nullptr) == 1 &&
                        ::EC_POINT_point2oct(group.get(), point.get(), POINT_CONVERSION_UNCOMPRESSED,
                                             public_part.data(), public_part.size(), nullptr) == public_part.size();
  const std::unique_ptr<OSSL_PARAM_BLD, Free> builder(::OSSL_PARAM_BLD_new());
  const bool built =
      computed && builder != nullptr &&
      ::OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
      ::OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, number.get()) == 1 &&
      ::OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, public_part.data(),
                                         public_part.size()) == 1;
  const std::unique_ptr<OSSL_PARAM, Free> parameters(built ? ::OSSL_PARAM_BLD_to_param(builder.get()) : nullptr);
  const std::unique_ptr<EVP_PKEY_CTX, Free> context(::EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* made = nullptr;
  const bool good = parameters != nullptr && context != nullptr && ::EVP_PKEY_fromdata_init(context.get()) == 1 &&
                    ::EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_KEYPAIR, parameters.get()) == 1;
  if (!good) return ssl_error("derive a key");
  return PrivateKey(made);
}

/// Makes a file that only its owner may read and write. Replaces an earlier file.
Result<File> new_file(const std::string& path) {
  ::unlink(path.c_str());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno_error(errno, "create " + path);
  return File(::fdopen(fd, "w"));
}

Result<void> close_file(File file, bool good, const std::string& path) {
  if (!good || std::fflush(file.get()) != 0 || ::fsync(::fileno(file.get())) != 0)
    return errno_error(errno, "write " + path);
  return {};
}

Result<void> write_key(const std::string& path, const PrivateKey& key) {
  SPATE_TRY(File file, new_file(path));
  const bool good = ::PEM_write_PrivateKey(file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  return close_file(std::move(file), good, path);
}

Result<void> write_certificate(const std::string& path, const Certificate& certificate) {
  SPATE_TRY(File file, new_file(path));
  const bool good = ::PEM_write_X509(file.get(), certificate.get()) == 1;
  return close_file(std::move(file), good, path);
}

bool add_extension(const Certificate& certificate, const Certificate& issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  ::X509V3_set_ctx(&context, issuer.get(), certificate.get(), nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free> extension(::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && ::X509_add_ext(certificate.get(), extension.get(), -1) == 1;
}

/// A certificate without extensions and without a signature. It is valid from yesterday, since clocks may differ.
Result<Certificate> blank(const PrivateKey& key, const char* name) {
  Certificate certificate(::X509_new());
  if (certificate == nullptr) return ssl_error("make a certificate");
  BIGNUM* const serial = ::BN_new();
  const bool numbered = ::BN_rand(serial, 120, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
                        ::BN_to_ASN1_INTEGER(serial, ::X509_get_serialNumber(certificate.get())) != nullptr;
  ::BN_free(serial);
  X509_NAME* const subject = ::X509_get_subject_name(certificate.get());
  const bool good = numbered && ::X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                    ::X509_gmtime_adj(::X509_getm_notBefore(certificate.get()), -86400) != nullptr &&
                    ::X509_time_adj_ex(::X509_getm_notAfter(certificate.get()), kDays, 0, nullptr) != nullptr &&
                    ::X509_set_pubkey(certificate.get(), key.get()) == 1 &&
                    ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                 reinterpret_cast<const unsigned char*>(name), -1, -1, 0) == 1;
  if (!good) return ssl_error("make a certificate");
  return certificate;
}

bool is_address(const std::string& host) {
  unsigned char room[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), room) == 1 || ::inet_pton(AF_INET6, host.c_str(), room) == 1;
}

bool is_host(const std::string& host) {
  return !host.empty() && host.size() < 254 &&
         std::ranges::all_of(
             host,
             [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                      c == '.' || c == ':';
             });
}

Result<std::pair<PrivateKey, Certificate>> load_authority(const std::string& folder) {
  const std::string key_path = folder + "/" + kAuthorityKeyFile;
  const std::string path = folder + "/" + kAuthorityFile;
  const File key_file(std::fopen(key_path.c_str(), "re"));
  if (key_file == nullptr) return errno_error(errno, "open " + key_path);
  const File file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) return errno_error(errno, "open " + path);
  PrivateKey key(::PEM_read_PrivateKey(key_file.get(), nullptr, nullptr, nullptr));
  Certificate certificate(::PEM_read_X509(file.get(), nullptr, nullptr, nullptr));
  if (key == nullptr || certificate == nullptr) return ssl_error("read the authority in " + folder);
  return std::make_pair(std::move(key), std::move(certificate));
}

}  // namespace

namespace {

Result<void> write_authority(const std::string& folder, const PrivateKey& key) {
  SPATE_TRY(const Certificate certificate, blank(key, "Spate coordinator"));
  const bool good = ::X509_set_issuer_name(certificate.get(), ::X509_get_subject_name(certificate.get())) == 1 &&
                    add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign") &&
                    ::X509_sign(certificate.get(), key.get(), ::EVP_sha256()) > 0;
  if (!good) return ssl_error("make an authority");
  SPATE_TRY(std::ignore, write_key(folder + "/" + kAuthorityKeyFile, key));
  return write_certificate(folder + "/" + kAuthorityFile, certificate);
}

}  // namespace

Result<void> make_authority(const std::string& folder) {
  SPATE_TRY(const PrivateKey key, new_key());
  return write_authority(folder, key);
}

Result<void> derive_authority(const std::string& folder, const Key& server_key) {
  SPATE_TRY(const PrivateKey key, derived_key(server_key));
  return write_authority(folder, key);
}

Result<void> make_certificate(const std::string& folder, const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    if (!is_host(host)) return Error::told(Errc::kInvalidArgument, "\"" + host + "\" is no name of a host");
    names += (names.empty() ? "" : ",") + std::string(is_address(host) ? "IP:" : "DNS:") + host;
  }
  SPATE_TRY(const auto authority, load_authority(folder));
  SPATE_TRY(const PrivateKey key, new_key());
  SPATE_TRY(const Certificate certificate, blank(key, "Spate server"));
  const bool good = ::X509_set_issuer_name(certificate.get(), ::X509_get_subject_name(authority.second.get())) == 1 &&
                    add_extension(certificate, authority.second, NID_subject_alt_name, names) &&
                    add_extension(certificate, authority.second, NID_key_usage, "critical,digitalSignature") &&
                    add_extension(certificate, authority.second, NID_ext_key_usage, "serverAuth,clientAuth") &&
                    ::X509_sign(certificate.get(), authority.first.get(), ::EVP_sha256()) > 0;
  if (!good) return ssl_error("make a certificate for " + names);
  SPATE_TRY(std::ignore, write_key(folder + "/" + kCertificateKeyFile, key));
  return write_certificate(folder + "/" + kCertificateFile, certificate);
}

}  // namespace spate::tools
