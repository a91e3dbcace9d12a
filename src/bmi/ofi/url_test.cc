// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/url.h"

#include "base/expect.h"

namespace spate::bmi::ofi {
namespace {

TEST(OfiUrl, InternetAddresses) {
  const Result<Target> target = parse_url("ofi+tcp://10.0.0.7:7400");
  ASSERT_OK(target);
  EXPECT_EQ(target->kind, Target::Kind::kInternet);
  EXPECT_EQ(target->provider, "tcp;ofi_rxm");
  EXPECT_EQ(target->node, "10.0.0.7");
  EXPECT_EQ(target->service, "7400");
  EXPECT_EQ(fabric_address(*target).size(), 16U);
  EXPECT_EQ(parse_url("ofi+net://localhost:1")->node, "127.0.0.1");
  EXPECT_EQ(parse_url("ofi+net://localhost:1")->provider, "net");
  EXPECT_EQ(parse_url("ofi+verbs://[::1]:70")->node, "::1");
  EXPECT_EQ(parse_url("ofi+verbs://[::1]:70")->provider, "verbs;ofi_rxm");
  EXPECT_EQ(fabric_address(*parse_url("ofi+verbs://[::1]:70")).size(), 28U);
}

TEST(OfiUrl, NamesRawAddressesAndAny) {
  EXPECT_EQ(as_text(fabric_address(*parse_url("ofi+shm://1:0:2"))), "fi_shm://1:0:2");
  EXPECT_EQ(parse_url("ofi+shm://*")->kind, Target::Kind::kAny);
  const Result<Target> raw = parse_url("ofi+efa://@00ff10");
  ASSERT_OK(raw);
  EXPECT_EQ(raw->kind, Target::Kind::kRaw);
  EXPECT_EQ(raw->provider, "efa");
  EXPECT_EQ(url_of("efa", "", fabric_address(*raw)), "ofi+efa://@00ff10");
  EXPECT_EQ(url_of("tcp", "1.2.3.4:5", {}), "ofi+tcp://1.2.3.4:5");
}

TEST(OfiUrl, InvalidUrlsAreRefused) {
  for (const char* url : {"",
                          "ofi",
                          "ofi+",
                          "ofi+tcp",
                          "ofi+tcp://",
                          "ofi+://1.2.3.4:5",
                          "ofi+tcp://1.2.3.4",
                          "ofi+tcp://:5",
                          "ofi+tcp://name:5",
                          "ofi+tcp://1.2.3.4:66000",
                          "ofi+tcp://1.2.3.4:x",
                          "ofi+tcp://[1.2.3.4]:5",
                          "ofi+shm://",
                          "ofi+shm://../x",
                          "ofi+shm://a/b",
                          "ofi+shm://.a",
                          "ofi+efa://@",
                          "ofi+efa://@0",
                          "ofi+efa://@0g",
                          "ofi+a;b://1.2.3.4:5",
                          "tcp://1.2.3.4:5"}) {
    EXPECT_ERRC(parse_url(url), Errc::kBadAddress) << url;
  }
  EXPECT_ERRC(parse_url("ofi+shm://" + std::string(101, 'a')), Errc::kBadAddress);
  EXPECT_ERRC(parse_url("ofi+efa://@" + std::string(514, '0')), Errc::kBadAddress);
}

}  // namespace
}  // namespace spate::bmi::ofi
