// SPDX-License-Identifier: Apache-2.0
// Certificates for tests: an authority, and what it signs.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"
#include "tls/openssl.h"
#include "tls/stream.h"

namespace spate::tls {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
};

/// The properties of a certificate that a test makes.
struct Wanted {
  std::string names = "IP:127.0.0.1,DNS:localhost";  // empty: none
  long from_s = -3600;                               // seconds from now
  long to_s = 86400;
  bool self_signed = false;
  std::string use = {};  // extendedKeyUsage; empty: any
};

/// A folder with ca.pem, which it removes.
class Certificates {
 public:
  Certificates() {
    std::array<char, 32> name{"/tmp/spate-tls-XXXXXX"};
    SPATE_CHECK(::mkdtemp(name.data()) != nullptr);
    folder_ = name.data();
    key_.reset(::EVP_EC_gen("P-256"));
    authority_ = make({.names = "", .self_signed = true}, *key_, true);
    write(folder_ + "/ca.pem", *authority_);
  }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;
  ~Certificates() { std::filesystem::remove_all(folder_); }

  /// Makes NAME.pem and NAME.key.
  Files issue(const std::string& name, const Wanted& wanted = {}) {
    const std::unique_ptr<EVP_PKEY, FreeKey> key(::EVP_EC_gen("P-256"));
    Files files{folder_ + "/ca.pem", folder_ + "/" + name + ".pem", folder_ + "/" + name + ".key"};
    write(files.certificate, *make(wanted, *key, false));
    BIO* const out = ::BIO_new_file(files.key.c_str(), "w");
    SPATE_CHECK(out != nullptr &&
                ::PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
    ::BIO_free(out);
    SPATE_CHECK(::chmod(files.key.c_str(), 0600) == 0);
    return files;
  }
  /// Makes or replaces revoked.pem, the authority's list. If `last`, the list has the last issued certificate.
  /// `valid_s`: how long it is valid, s.
  std::string revoke(bool last, long valid_s = 86400) {
    const Owned<X509_CRL> list(::X509_CRL_new());
    ::X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
    ::X509_CRL_set_issuer_name(list.get(), ::X509_get_subject_name(authority_.get()));
    set_time(*list, valid_s - 86400, &::X509_CRL_set1_lastUpdate);
    set_time(*list, valid_s, &::X509_CRL_set1_nextUpdate);
    if (last) add_last_to(*list);
    SPATE_CHECK(::X509_CRL_sign(list.get(), key_.get(), ::EVP_sha256()) > 0);
    std::string file = folder_ + "/revoked.pem";
    BIO* const out = ::BIO_new_file(file.c_str(), "w");
    SPATE_CHECK(out != nullptr && ::PEM_write_bio_X509_CRL(out, list.get()) == 1);
    ::BIO_free(out);
    return file;
  }
  const std::string& folder() const { return folder_; }

 private:
  static void set_time(X509_CRL& list, long from_now_s, int (*set)(X509_CRL*, const ASN1_TIME*)) {
    ASN1_TIME* const time = ::X509_gmtime_adj(nullptr, from_now_s);
    SPATE_CHECK(set(&list, time) == 1);
    ::ASN1_TIME_free(time);
  }
  void add_last_to(X509_CRL& list) const {
    X509_REVOKED* const entry = ::X509_REVOKED_new();
    ASN1_INTEGER* const serial = ::ASN1_INTEGER_new();
    ::ASN1_INTEGER_set(serial, serial_);
    ::X509_REVOKED_set_serialNumber(entry, serial);
    ::X509_REVOKED_set_revocationDate(entry, const_cast<ASN1_TIME*>(::X509_CRL_get0_lastUpdate(&list)));
    ::ASN1_INTEGER_free(serial);
    SPATE_CHECK(::X509_CRL_add0_revoked(&list, entry) == 1);
  }
  static void write(const std::string& file, X509& certificate) {
    BIO* const out = ::BIO_new_file(file.c_str(), "w");
    SPATE_CHECK(out != nullptr && ::PEM_write_bio_X509(out, &certificate) == 1);
    ::BIO_free(out);
  }
  static void extend(X509& certificate, int what, const std::string& value) {
    X509_EXTENSION* const extension = ::X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    SPATE_CHECK(extension != nullptr && ::X509_add_ext(&certificate, extension, -1) == 1);
    ::X509_EXTENSION_free(extension);
  }
  Owned<X509> make(const Wanted& wanted, EVP_PKEY& key, bool authority) {
    Owned<X509> made(::X509_new());
    ::X509_set_version(made.get(), X509_VERSION_3);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), ++serial_);
    ::X509_gmtime_adj(X509_getm_notBefore(made.get()), wanted.from_s);
    ::X509_gmtime_adj(X509_getm_notAfter(made.get()), wanted.to_s);
    X509_NAME* const name = ::X509_get_subject_name(made.get());
    const std::string text = (authority ? "authority " : "member ") + std::to_string(serial_);
    ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1,
                                 0);
    const bool own = authority || wanted.self_signed;
    ::X509_set_issuer_name(made.get(), own ? name : ::X509_get_subject_name(authority_.get()));
    ::X509_set_pubkey(made.get(), &key);
    if (authority) extend(*made, NID_basic_constraints, "critical,CA:TRUE");
    if (!wanted.names.empty()) extend(*made, NID_subject_alt_name, wanted.names);
    if (!wanted.use.empty()) extend(*made, NID_ext_key_usage, wanted.use);
    SPATE_CHECK(::X509_sign(made.get(), own ? &key : key_.get(), ::EVP_sha256()) > 0);
    return made;
  }

  std::string folder_;
  std::unique_ptr<EVP_PKEY, FreeKey> key_;
  Owned<X509> authority_;
  long serial_ = 0;
};

/// The same key for everybody.
class OneKey final : public Keys {
 public:
  explicit OneKey(std::string name = "key", std::byte secret = std::byte{7}) : name_(std::move(name)) {
    key_.fill(secret);
  }
  Result<SharedKey> own() override { return SharedKey{to_bytes(as_bytes(name_)), key_}; }
  std::optional<Key> find(ByteView identity) override {
    return as_text(identity) == name_ ? std::optional(key_) : std::nullopt;
  }

 private:
  const std::string name_;
  Key key_{};
};

}  // namespace spate::tls
