// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/endpoint.h"

#include <gmock/gmock.h>

#include "base/expect.h"

namespace spate::bmi::tcp {
namespace {

TEST(Url, NumericAddressesNeedNoLookUp) {
  const Endpoint v4 = parse_url("tcp://127.0.0.1:7400").value();
  ASSERT_EQ(v4.addresses.size(), 1U);
  EXPECT_EQ(v4.addresses[0].text(), "127.0.0.1:7400");
  EXPECT_FALSE(v4.named) << "a number needs no look-up";
  const Endpoint v6 = parse_url("tcp://[::1]:80").value();
  EXPECT_EQ(v6.addresses.at(0).text(), "[::1]:80");
  EXPECT_EQ(parse_url("tcp://localhost:1")->addresses.at(0).text(), "127.0.0.1:1");
  EXPECT_EQ(parse_url("tcp://*:0")->addresses.at(0).text(), "0.0.0.0:0");
}

TEST(Url, NamesWaitForTheResolver) {
  const Endpoint named = parse_url("tcp://io-1.cluster.example:7400").value();
  EXPECT_TRUE(named.named) << "a name needs a look-up";
  EXPECT_THAT(named.addresses, testing::IsEmpty());
  EXPECT_EQ(named.host, "io-1.cluster.example");
  EXPECT_EQ(named.port, 7400);
}

TEST(Url, InvalidUrlsAreRefused) {
  for (const char* url : {"", "tcp://", "tcp://host", "tcp://:7400", "tcp://host:", "tcp://host:65536", "tcp://host:-1",
                          "tcp://host:7x", "tcp://ho st:7", "tcp://[::1:7", "tcp://[zz]:7", "udp://host:7",
                          "tcp://a/b:7", "tcp://[]:7", "tcp://user@host:7"}) {
    EXPECT_ERRC(parse_url(url), Errc::kBadAddress) << url;
  }
  EXPECT_ERRC(parse_url("tcp://" + std::string(1000, 'a') + ":1"), Errc::kBadAddress);
}

TEST(Url, ListenOnPortZeroReturnsTheRealPort) {
  const Endpoint any = parse_url("tcp://127.0.0.1:0").value();
  const UniqueFd socket = listen_on(any).value();
  const std::string url = advertised_url(any, socket.get());
  EXPECT_NE(parse_url(url)->port, 0);
  const auto again = listen_on(parse_url(url).value());
  EXPECT_ERRC(again, Errc::kExists);
  EXPECT_NE(again.error().message().find(url + " is in use"), std::string::npos) << again.error().message();
}

TEST(Url, AnyIsAdvertisedByTheHostsName) {
  const Endpoint any = parse_url("tcp://*:0").value();
  const UniqueFd socket = listen_on(any).value();
  const std::string url = advertised_url(any, socket.get());
  EXPECT_EQ(url.find('*'), std::string::npos);
  EXPECT_EQ(url.find("0.0.0.0"), std::string::npos);
}

TEST(Url, HostsAreComparedWithoutPorts) {
  const auto address = [](const char* url) { return parse_url(url)->addresses.at(0); };
  EXPECT_TRUE(address("tcp://10.0.0.1:1").same_host(address("tcp://10.0.0.1:2")))
      << "the ports differ, the hosts do not";
  EXPECT_FALSE(address("tcp://10.0.0.1:1").same_host(address("tcp://10.0.0.2:1"))) << "the hosts differ";
  EXPECT_FALSE(address("tcp://127.0.0.1:1").same_host(address("tcp://[::1]:1"))) << "the families differ";
  EXPECT_TRUE(address("tcp://[::1]:1").same_host(address("tcp://[::1]:2"))) << "the ports differ, the hosts do not";
}

}  // namespace
}  // namespace spate::bmi::tcp
