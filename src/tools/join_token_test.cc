// SPDX-License-Identifier: Apache-2.0
#include "tools/join_token.h"

#include <fmt/core.h>

#include "base/expect.h"

namespace spate::tools {
namespace {

JoinToken example(bool with_server_key) {
  JoinToken token{FsId(0x8d7c1f0a92b34e56), ServerId(1), {}, {}};
  token.client_key.fill(std::byte{0xA5});
  if (with_server_key) {
    token.server_key.emplace();
    token.server_key->fill(std::byte{0x0F});
  }
  return token;
}

TEST(JoinToken, IsReadAsItWasWritten) {
  for (const bool with_server_key : {false, true}) {
    const JoinToken token = example(with_server_key);
    const auto back = parse_join_token(to_text(token));
    ASSERT_OK(back);
    EXPECT_EQ(back->fs, token.fs);
    EXPECT_EQ(back->meta, token.meta);
    EXPECT_EQ(back->client_key, token.client_key);
    EXPECT_EQ(back->server_key, token.server_key);
  }
}

TEST(JoinToken, IsRefusedWhenAnyCharacterIsChangedOrMissing) {
  for (const bool with_server_key : {false, true}) {
    const std::string whole = to_text(example(with_server_key));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string changed = whole;
      changed[i] = changed[i] == '1' ? '2' : '1';
      EXPECT_EQ(parse_join_token(changed).code(), Errc::kInvalidArgument) << i;
      EXPECT_EQ(parse_join_token(whole.substr(0, i)).code(), Errc::kInvalidArgument) << i;
      EXPECT_EQ(parse_join_token(whole.substr(i + 1)).code(), Errc::kInvalidArgument) << i;
    }
    EXPECT_EQ(parse_join_token(whole + " ").code(), Errc::kInvalidArgument);
    EXPECT_EQ(parse_join_token(std::string(1 << 20, '.')).code(), Errc::kInvalidArgument);
  }
}

/// Its sum is right, and one of its values is not one that to_text() writes.
TEST(JoinToken, ValuesOutOfRangeAreRefused) {
  const std::string key(64, 'a');
  const auto with_sum = [](const std::string& text) { return text + fmt::format(".{:08x}", crc32c(as_bytes(text))); };
  EXPECT_OK(parse_join_token(with_sum("spj1.1.1." + key)));
  for (const std::string& wrong :
       {"spj1.0.1." + key, "spj1.1.0." + key, "spj1.1.65536." + key, "spj1.1.4294967297." + key, "spj1.01.1." + key,
        "spj1.1.-1." + key, "spj1.A.1." + key, "spj1.11111111111111111.1." + key, "spj2.1.1." + key,
        "spj1.1.1." + key.substr(1), "spj1.1.1.A" + key.substr(1), "spj1.1.1." + key + "\n" + key,
        "spj1.1.1." + key + ".", "spj1.1.1." + key + "." + key + "." + key}) {
    EXPECT_EQ(parse_join_token(with_sum(wrong)).code(), Errc::kInvalidArgument) << wrong;
  }
}

TEST(JoinToken, TheErrorDoesNotRepeatTheSecret) {
  const std::string whole = to_text(example(true));
  const auto wrong = parse_join_token(whole.substr(0, whole.size() - 1));
  EXPECT_EQ(wrong.error().message().find("a5a5"), std::string::npos) << wrong.error().message();
}

}  // namespace
}  // namespace spate::tools
