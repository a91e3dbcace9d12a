// SPDX-License-Identifier: Apache-2.0
#include "server/meta/names/mirror_choice.h"

#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

using ::testing::HasSubstr;

class EarlierClientTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  EarlierClientTest() : fs_(options()) { fs_.client_features = wire::kFeatureNone; }

  static TestFsOptions options() {
    TestFsOptions options;
    options.meta.replicas = GetParam();
    return options;
  }
  Result<wire::CreateReply> create(const std::string& path) {
    wire::CreateRequest request;
    request.where = at(path);
    return fs_.asked<wire::CreateReply>(root_user(), request);
  }
  /// A client of this version makes the file "f".
  void make_file() {
    fs_.client_features = wire::kFeatureMirrors;
    ASSERT_OK(create("f"));
    fs_.client_features = wire::kFeatureNone;
  }
  Result<wire::LookupReply> lookup() {
    wire::LookupRequest request;
    request.where = at("f");
    return fs_.asked<wire::LookupReply>(root_user(), request);
  }

  TestFs fs_;
};

using EarlierClientOfMirroredFilesTest = EarlierClientTest;
using EarlierClientOfSingleCopiesTest = EarlierClientTest;

TEST_P(EarlierClientOfMirroredFilesTest, IsRefusedWithASentence) {
  make_file();
  const auto found = lookup();
  EXPECT_ERRC(found, Errc::kNotSupported);
  EXPECT_THAT(found.error().message(), HasSubstr("needs a newer version of Spate"));
  const auto made = create("g");
  EXPECT_ERRC(made, Errc::kNotSupported);
  EXPECT_THAT(made.error().message(), HasSubstr("needs a newer version of Spate"));
}

TEST_P(EarlierClientOfSingleCopiesTest, IsServed) {
  make_file();
  EXPECT_OK(lookup());
  EXPECT_OK(create("g"));
}

INSTANTIATE_TEST_SUITE_P(Two, EarlierClientOfMirroredFilesTest, ::testing::Values(2U));
INSTANTIATE_TEST_SUITE_P(One, EarlierClientOfSingleCopiesTest, ::testing::Values(1U));

}  // namespace
}  // namespace spate::meta
