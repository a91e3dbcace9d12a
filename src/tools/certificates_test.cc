// SPDX-License-Identifier: Apache-2.0
#include "tools/certificates.h"

#include <openssl/core_names.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/expect.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

struct FreeCertificate {
  void operator()(X509* certificate) const { ::X509_free(certificate); }
};

class DerivedAuthority : public testing::Test {
 protected:
  void SetUp() override {
    std::string place = testing::TempDir() + "spate-authority-XXXXXX";
    ASSERT_NE(::mkdtemp(place.data()), nullptr) << place;
    root_ = place;
  }
  void TearDown() override { fs::remove_all(root_); }

  /// A folder with the authority that is derived from a key of which each byte is `byte`.
  std::string derive(const std::string& name, std::byte byte) {
    std::string folder = root_ + "/" + name;
    fs::create_directory(folder);
    Key key;
    key.fill(byte);
    EXPECT_OK(derive_authority(folder, key));
    return folder;
  }
  static std::string text(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::unique_ptr<X509, FreeCertificate> load(const std::string& file) {
    std::FILE* const in = std::fopen(file.c_str(), "re");
    if (in == nullptr) return nullptr;
    std::unique_ptr<X509, FreeCertificate> certificate(::PEM_read_X509(in, nullptr, nullptr, nullptr));
    std::fclose(in);
    return certificate;
  }
  /// The private number of the folder's authority, in hexadecimal digits.
  static std::string private_number(const std::string& folder) {
    std::FILE* const in = std::fopen((folder + "/" + kAuthorityKeyFile).c_str(), "re");
    if (in == nullptr) return "no key";
    EVP_PKEY* const key = ::PEM_read_PrivateKey(in, nullptr, nullptr, nullptr);
    std::fclose(in);
    BIGNUM* number = nullptr;
    const bool good = key != nullptr && ::EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_PRIV_KEY, &number) == 1;
    char* const digits = good ? ::BN_bn2hex(number) : nullptr;
    const std::string all = digits == nullptr ? "no number" : digits;
    ::OPENSSL_free(digits);
    ::BN_free(number);
    ::EVP_PKEY_free(key);
    return all;
  }
  /// Whether the authority in `folder` has signed the certificate in `signed_in`.
  static bool has_signed(const std::string& folder, const std::string& signed_in) {
    const auto authority = load(folder + "/" + kAuthorityFile);
    const auto certificate = load(signed_in + "/" + kCertificateFile);
    if (authority == nullptr || certificate == nullptr) return false;
    return ::X509_verify(certificate.get(), ::X509_get0_pubkey(authority.get())) == 1 &&
           ::X509_check_issued(authority.get(), certificate.get()) == X509_V_OK;
  }

  std::string root_;
};

TEST_F(DerivedAuthority, EachMachineDerivesTheSameKey) {
  const std::string one = derive("one", std::byte{7});
  const std::string other = derive("other", std::byte{7});
  const std::string key = text(one + "/" + kAuthorityKeyFile);
  EXPECT_TRUE(key.starts_with("-----BEGIN PRIVATE KEY-----")) << key.substr(0, 30);
  EXPECT_EQ(key, text(other + "/" + kAuthorityKeyFile));
}

/// A later version has to derive the same key, or no machine can join a file system of an earlier one. The number was
/// computed apart from this code: HKDF with SHA-256, then FIPS 186-5, sec. A.2.1.
TEST_F(DerivedAuthority, TheKeyDoesNotChangeFromVersionToVersion) {
  EXPECT_EQ(private_number(derive("one", std::byte{7})),
            "734E16B6DC13EE2BA39CBE55C5C09A45303689201459E52AA70EFF0C9938352C");
}

/// Each file system has a server key of its own, and so an authority of its own.
TEST_F(DerivedAuthority, AnotherServerKeyGivesAnotherAuthority) {
  EXPECT_NE(text(derive("one", std::byte{7}) + "/" + kAuthorityKeyFile),
            text(derive("other", std::byte{8}) + "/" + kAuthorityKeyFile));
}

TEST_F(DerivedAuthority, AnotherMachineAcceptsTheCertificate) {
  const std::string one = derive("one", std::byte{7});
  const std::string other = derive("other", std::byte{7});
  const std::string foreign = derive("foreign", std::byte{8});
  ASSERT_OK(make_certificate(one, {"127.0.0.1", "localhost"}));
  EXPECT_TRUE(has_signed(other, one)) << "a machine with the same server key does not accept it";
  EXPECT_FALSE(has_signed(foreign, one)) << "a machine with another server key accepts it";
}

TEST_F(DerivedAuthority, OnlyItsOwnerReadsTheKey) {
  const std::string folder = derive("one", std::byte{7});
  EXPECT_EQ(fs::status(folder + "/" + kAuthorityKeyFile).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

}  // namespace
}  // namespace spate::tools
