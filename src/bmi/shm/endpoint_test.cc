// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/endpoint.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/expect.h"

namespace spate::bmi::shm {
namespace {

class EndpointTest : public testing::Test {
 protected:
  EndpointTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "spate-shm-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~EndpointTest() override { std::filesystem::remove_all(folder_); }
  Endpoint at(const std::string& name) const { return parse_url("shm://" + folder_ + "/" + name).value(); }
  static int connect(const Endpoint& endpoint) {
    const UniqueFd socket = make_socket().value();
    return connect_to(socket.get(), endpoint);
  }
  std::string folder_;
  SeededRandom random_{1};
};

TEST(ShmUrl, PathsAndNames) {
  EXPECT_FALSE(parse_url("shm:///run/x.sock").value().abstract) << "the URL has a path";
  EXPECT_EQ(parse_url("shm:///run/x.sock").value().name, "/run/x.sock");
  EXPECT_TRUE(parse_url("shm://spate-1_2.3").value().abstract) << "the URL has a name";
  EXPECT_EQ(url_of(parse_url("shm://n").value()), "shm://n");
  for (const std::string bad :
       {"shm://", "shm:///", "shm:///dir/", "shm://a b", "shm://a/b", "tcp://x", "shm://x?", "shm:/x"}) {
    EXPECT_ERRC(parse_url(bad), Errc::kBadAddress) << bad;
  }
  EXPECT_ERRC(parse_url("shm://" + std::string(97, 'a')), Errc::kBadAddress);
  EXPECT_ERRC(parse_url("shm:///" + std::string(4096, 'a')), Errc::kBadAddress);
}

TEST_F(EndpointTest, OneListenerAtATime) {
  for (const Endpoint& endpoint : {at("s"), named(parse_url("shm://*").value(), random_)}) {
    EXPECT_THAT(connect(endpoint), testing::AnyOf(ENOENT, ECONNREFUSED));
    const UniqueFd listener = listen_on(endpoint, false).value();
    EXPECT_EQ(connect(endpoint), 0);
    EXPECT_ERRC(listen_on(endpoint, false), Errc::kExists);
    EXPECT_EQ(connect(endpoint), 0) << "the first one is undisturbed";
  }
}

TEST_F(EndpointTest, TheSocketFileOfADeadServerIsTakenOver) {
  listen_on(at("s"), false).value().reset();
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/s")) << "the dead server left no file, so this tests nothing";
  EXPECT_EQ(connect(at("s")), ECONNREFUSED);
  const UniqueFd listener = listen_on(at("s"), false).value();
  EXPECT_EQ(connect(at("s")), 0);
}

TEST_F(EndpointTest, AFileThatIsNoSocketIsLeftAlone) {
  std::ofstream(folder_ + "/s") << "data";
  EXPECT_ERRC(listen_on(at("s"), false), Errc::kExists);
  std::string text;
  std::ifstream(folder_ + "/s") >> text;
  EXPECT_EQ(text, "data");
}

TEST_F(EndpointTest, APathOfAnyLength) {
  std::string long_folder;
  while (long_folder.size() < 300) {
    long_folder += std::string(60, 'd') + "/";
    std::filesystem::create_directory(folder_ + "/" + long_folder);
  }
  const Endpoint endpoint = at(long_folder + "s");
  const UniqueFd listener = listen_on(endpoint, false).value();
  EXPECT_EQ(connect(endpoint), 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + long_folder + "s")) << "the socket file is elsewhere";
  EXPECT_ERRC(listen_on(at("no/such/folder/" + std::string(100, 'x') + "/s"), false), Errc::kNotFound);
}

TEST_F(EndpointTest, RightsFollowThePolicy) {
  struct stat st{};
  const UniqueFd own = listen_on(at("own"), false).value();
  ASSERT_EQ(::stat((folder_ + "/own").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777U, 0600U);
  const UniqueFd all = listen_on(at("all"), true).value();
  ASSERT_EQ(::stat((folder_ + "/all").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777U, 0666U);
}

TEST_F(EndpointTest, TheKernelReportsThePeersUser) {
  const UniqueFd listener = listen_on(at("s"), false).value();
  const UniqueFd socket = make_socket().value();
  ASSERT_EQ(connect_to(socket.get(), at("s")), 0);
  EXPECT_EQ(peer_of(socket.get()).value().uid, ::geteuid());
  EXPECT_EQ(peer_of(socket.get()).value().pid, ::getpid());
}

}  // namespace
}  // namespace spate::bmi::shm
