// SPDX-License-Identifier: Apache-2.0
#include "nbd/negotiation.h"

#include <gmock/gmock.h>

#include <map>

#include "base/expect.h"

namespace spate::nbd {
namespace {

using testing::ElementsAre;
using State = Negotiation::State;

class Exports final : public Catalogue {
 public:
  std::vector<std::string> names() override { return {"disk", "other"}; }
  std::optional<ExportInfo> find(std::string_view name) override {
    if (name != "disk" && name != "other" && !name.empty()) return std::nullopt;
    ExportInfo info;
    info.name = name.empty() ? "disk" : name;
    info.size = 12345;
    return info;
  }
};

/// One more export, whose size must be looked up.
class Remote final : public Catalogue {
 public:
  std::vector<std::string> names() override { return {"disk", "far"}; }
  std::optional<ExportInfo> find(std::string_view name) override {
    ExportInfo info;
    info.name = name;
    info.size = size;
    return info;
  }
  std::optional<std::string> to_look_at(std::string_view name) override {
    if (name.empty()) ++asked_for_nothing;
    return name == "far" || name.size() > kMaxString ? std::optional<std::string>(name) : std::nullopt;
  }
  std::uint64_t size = 1;
  int asked_for_nothing = 0;  // how often the default export would have been looked at
};

struct Reply {
  Option option;
  OptionReply type;
  std::string data;
};

struct World {
  explicit World(NegotiationPolicy policy = {}) : negotiation(exports, policy) {
    Bytes flags;
    BigEndian(flags).u32(kFixedNewstyle | kNoZeroes);
    send(flags);
  }
  void send(const Bytes& bytes) {
    in.insert(in.end(), bytes.begin(), bytes.end());
    const std::size_t used = negotiation.consume(in, out);
    in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(used));
  }
  void option(Option number, std::string_view data = {}) {
    Bytes bytes;
    BigEndian(bytes)
        .u64(kOptionMagic)
        .u32(static_cast<std::uint32_t>(number))
        .u32(static_cast<std::uint32_t>(data.size()))
        .text(data);
    send(bytes);
  }
  /// The answers since the last call.
  std::vector<Reply> replies() {
    std::vector<Reply> all;
    ByteView rest = out;
    while (rest.size() >= 20) {
      EXPECT_EQ(get_u64(rest.data()), kOptionReplyMagic);
      const std::size_t size = get_u32(rest.data() + 16);
      all.push_back({static_cast<Option>(get_u32(rest.data() + 8)), static_cast<OptionReply>(get_u32(rest.data() + 12)),
                     std::string(as_text(rest.subspan(20, size)))});
      rest = rest.subspan(20 + size);
    }
    EXPECT_THAT(rest, testing::IsEmpty());
    out.clear();
    return all;
  }
  /// The type of the last reply.
  OptionReply last() {
    const auto all = replies();
    return all.empty() ? OptionReply{} : all.back().type;
  }
  Exports exports;
  Negotiation negotiation;
  Bytes in;
  Bytes out;
};

std::string go_data(std::string_view name, std::vector<Info> wanted = {}) {
  Bytes data;
  BigEndian(data)
      .u32(static_cast<std::uint32_t>(name.size()))
      .text(name)
      .u16(static_cast<std::uint16_t>(wanted.size()));
  for (const Info info : wanted) BigEndian(data).u16(static_cast<std::uint16_t>(info));
  return std::string(as_text(data));
}

std::string context_data(std::string_view name, std::vector<std::string> queries) {
  Bytes data;
  BigEndian(data)
      .u32(static_cast<std::uint32_t>(name.size()))
      .text(name)
      .u32(static_cast<std::uint32_t>(queries.size()));
  for (const std::string& query : queries) BigEndian(data).u32(static_cast<std::uint32_t>(query.size())).text(query);
  return std::string(as_text(data));
}

/// Bytes of one option, as World::option sends them.
Bytes bytes_of(Option number, std::string_view data) {
  Bytes bytes;
  BigEndian(bytes)
      .u64(kOptionMagic)
      .u32(static_cast<std::uint32_t>(number))
      .u32(static_cast<std::uint32_t>(data.size()))
      .text(data);
  return bytes;
}

TEST(Negotiation, OnlyTheExportThatIsNamedIsLookedAt) {
  for (const Option option : {Option::kInfo, Option::kGo, Option::kExportName}) {
    Remote exports;
    Negotiation negotiation(exports, {});
    Bytes in;
    Bytes out;
    BigEndian(in).u32(kFixedNewstyle | kNoZeroes);
    EXPECT_EQ(negotiation.consume(in, out), in.size());
    in = bytes_of(Option::kList, "");
    EXPECT_EQ(negotiation.consume(in, out), in.size());
    EXPECT_EQ(negotiation.state(), State::kTalking);
    out.clear();

    in = bytes_of(option, option == Option::kExportName ? "far" : go_data("far"));
    EXPECT_EQ(negotiation.consume(in, out), 0U) << "the option stays in the input";
    EXPECT_EQ(negotiation.state(), State::kLook);
    EXPECT_EQ(negotiation.wanted(), "far");
    EXPECT_THAT(out, testing::IsEmpty());
    exports.size = 4711;
    negotiation.looked();
    EXPECT_EQ(negotiation.consume(in, out), in.size());
    EXPECT_THAT(out, testing::Not(testing::IsEmpty()));
    if (option == Option::kInfo) {
      EXPECT_EQ(negotiation.consume(in, out), 0U) << "it is looked at each time";
      EXPECT_EQ(negotiation.state(), State::kLook);
    } else {
      EXPECT_EQ(negotiation.state(), State::kTransmission);
      EXPECT_EQ(negotiation.chosen().size, 4711U);
    }
  }
}

TEST(Negotiation, NoExportIsLookedAtBeforeRequiredTls) {
  Remote exports;
  Negotiation negotiation(exports, {true, true});
  Bytes in;
  Bytes out;
  BigEndian(in).u32(kFixedNewstyle | kNoZeroes);
  const Bytes option = bytes_of(Option::kInfo, go_data("far"));
  in.insert(in.end(), option.begin(), option.end());
  EXPECT_EQ(negotiation.consume(in, out), in.size());
  EXPECT_EQ(negotiation.state(), State::kTalking);
}

/// A client does not wait for the servers of an export that it has not named.
TEST(Negotiation, OptionsThatNameNoExportLookAtNone) {
  const std::string far = go_data("far");
  const std::vector<std::pair<Option, std::string>> options = {
      {Option::kList, ""},
      {Option::kList, far},
      {Option::kStructuredReply, ""},
      {Option::kStructuredReply, far},
      {Option::kListMetaContext, context_data("far", {})},
      {Option::kSetMetaContext, context_data("far", {std::string(kBaseAllocation)})},
      {static_cast<Option>(77), far},
      {Option::kInfo, go_data("disk")},
      {Option::kGo, far.substr(0, far.size() - 3)},         // the name's end is missing
      {Option::kGo, std::string("\0\0\0\4far\0\0\0", 10)},  // a NUL in the name
      {Option::kInfo, ""},
      {Option::kExportName, std::string(kMaxString + 1, 'x')},
      {Option::kAbort, far},
  };
  for (const auto& [option, data] : options) {
    Remote exports;
    Negotiation negotiation(exports, {});
    Bytes in;
    Bytes out;
    BigEndian(in).u32(kFixedNewstyle | kNoZeroes);
    const Bytes bytes = bytes_of(option, data);
    in.insert(in.end(), bytes.begin(), bytes.end());
    const auto which = static_cast<unsigned>(option);
    EXPECT_EQ(negotiation.consume(in, out), in.size()) << which;
    EXPECT_NE(negotiation.state(), State::kLook) << which;
    EXPECT_EQ(exports.asked_for_nothing, 0) << which;
  }
}

TEST(Negotiation, ListsExportsAndRefusesDataWithIt) {
  World world;
  world.option(Option::kList);
  const auto replies = world.replies();
  ASSERT_EQ(replies.size(), 3U);
  EXPECT_EQ(replies[0].data, std::string("\0\0\0\4disk", 8));
  EXPECT_EQ(replies[2].type, OptionReply::kAck);
  world.option(Option::kList, "x");
  EXPECT_EQ(world.last(), OptionReply::kErrInvalid);
}

TEST(Negotiation, GoReturnsSizeAndBlockSizesAndServes) {
  World world;
  world.option(Option::kGo, go_data("", {Info::kName, static_cast<Info>(77)}));
  const auto replies = world.replies();
  ASSERT_EQ(replies.size(), 4U);
  EXPECT_EQ(get_u64(as_bytes(replies[0].data).data() + 2), 12345U);
  EXPECT_EQ(get_u32(as_bytes(replies[1].data).data() + 10), kMaxPayload);
  EXPECT_EQ(replies[2].data, std::string("\0\1disk", 6));
  EXPECT_EQ(replies[3].type, OptionReply::kAck);
  EXPECT_EQ(world.negotiation.state(), State::kTransmission);
  EXPECT_EQ(world.negotiation.chosen().name, "disk");
}

TEST(Negotiation, InfoServesNothingAndUnknownExportsAreReported) {
  World world;
  world.option(Option::kInfo, go_data("other"));
  EXPECT_EQ(world.last(), OptionReply::kAck);
  EXPECT_EQ(world.negotiation.state(), State::kTalking);
  world.option(Option::kGo, go_data("none"));
  EXPECT_EQ(world.last(), OptionReply::kErrUnknown);
  world.option(Option::kGo, go_data("disk").substr(0, 5));
  EXPECT_EQ(world.last(), OptionReply::kErrInvalid);
  world.option(Option::kGo, go_data("disk") + "x");
  EXPECT_EQ(world.last(), OptionReply::kErrInvalid);
  world.option(Option::kGo, go_data(std::string_view("di\0k", 4)));
  EXPECT_EQ(world.last(), OptionReply::kErrInvalid);
  EXPECT_EQ(world.negotiation.state(), State::kTalking);
}

TEST(Negotiation, ExportNameHasNoAnswerForFailure) {
  World world;
  world.option(Option::kExportName, "none");
  EXPECT_THAT(world.out, testing::IsEmpty());
  EXPECT_EQ(world.negotiation.state(), State::kEnd);
  World other;
  other.option(Option::kExportName, "disk");
  EXPECT_EQ(other.out.size(), 10U);  // no zeroes were agreed on
  EXPECT_EQ(other.negotiation.state(), State::kTransmission);
}

TEST(Negotiation, UnknownOptionsAndFlagsAndMagic) {
  World world;
  world.option(static_cast<Option>(4711), "whatever");
  EXPECT_EQ(world.last(), OptionReply::kErrUnsupported);
  EXPECT_EQ(world.negotiation.state(), State::kTalking);
  world.send(Bytes(16, std::byte{1}));
  EXPECT_EQ(world.negotiation.state(), State::kEnd);

  Exports exports;
  Negotiation strict(exports, {});
  Bytes flags;
  Bytes out;
  BigEndian(flags).u32(1U << 7U);
  strict.consume(flags, out);
  EXPECT_EQ(strict.state(), State::kEnd);
}

TEST(Negotiation, AnOptionThatIsTooLongIsSkippedAsItArrives) {
  World world;
  Bytes header;
  BigEndian(header).u64(kOptionMagic).u32(static_cast<std::uint32_t>(Option::kGo)).u32(1U << 20U);
  world.send(header);
  EXPECT_EQ(world.last(), OptionReply::kErrTooBig);
  for (int i = 0; i < 16; ++i) {
    world.send(Bytes(1U << 16U));
    EXPECT_THAT(world.in, testing::IsEmpty());
  }
  world.option(Option::kList);
  EXPECT_EQ(world.last(), OptionReply::kAck);
}

TEST(Negotiation, ManyOptionsAtOnceAreAnsweredWithinLimits) {
  World world;
  Bytes many;
  for (int i = 0; i < 4000; ++i)
    BigEndian(many).u64(kOptionMagic).u32(static_cast<std::uint32_t>(Option::kList)).u32(0);
  world.send(many);
  EXPECT_THAT(world.in, testing::Not(testing::IsEmpty()));
  EXPECT_LT(world.out.size(), 2 * Negotiation::kMaxOptionBytes);
  std::size_t replies = world.replies().size();
  while (!world.in.empty()) {
    world.send({});
    replies += world.replies().size();
  }
  EXPECT_EQ(replies, 12000U);
}

TEST(Negotiation, BlockStatusIsForTheExportItWasAskedFor) {
  World world;
  world.option(Option::kSetMetaContext, context_data("disk", {"base:allocation"}));
  EXPECT_EQ(world.last(), OptionReply::kErrInvalid);  // structured replies must be negotiated first
  world.option(Option::kStructuredReply);
  world.option(Option::kListMetaContext, context_data("disk", {}));
  EXPECT_EQ(world.replies().size(), 3U);
  world.option(Option::kSetMetaContext, context_data("disk", {"x-other:y", "base:allocation", "base:allocation"}));
  EXPECT_EQ(world.replies().size(), 2U);  // reported once
  world.option(Option::kGo, go_data("other"));
  EXPECT_FALSE(world.negotiation.block_status());

  World second;
  second.option(Option::kStructuredReply);
  second.option(Option::kSetMetaContext, context_data("", {"base:allocation"}));
  second.option(Option::kGo, go_data("disk"));
  EXPECT_TRUE(second.negotiation.block_status());

  World third;
  third.option(Option::kStructuredReply);
  third.option(Option::kSetMetaContext, context_data("disk", {"base:allocation"}));
  third.option(Option::kSetMetaContext, context_data("disk", {"base:"}));  // replaced by an empty selection
  third.option(Option::kGo, go_data("disk"));
  EXPECT_FALSE(third.negotiation.block_status());
}

TEST(Negotiation, RequiredTlsMustComeFirst) {
  World world({true, true});
  world.option(Option::kList);
  EXPECT_EQ(world.last(), OptionReply::kErrTlsRequired);
  world.option(Option::kGo, go_data("disk"));
  EXPECT_EQ(world.last(), OptionReply::kErrTlsRequired);
  world.option(Option::kStartTls);
  EXPECT_EQ(world.last(), OptionReply::kAck);
  EXPECT_EQ(world.negotiation.state(), State::kStartTls);
  world.negotiation.tls_started();
  world.option(Option::kStartTls);
  EXPECT_EQ(world.last(), OptionReply::kErrInvalid);
  world.option(Option::kGo, go_data("disk"));
  EXPECT_EQ(world.last(), OptionReply::kAck);

  World name({true, true});
  name.option(Option::kExportName, "disk");
  EXPECT_EQ(name.negotiation.state(), State::kEnd);
}

TEST(Negotiation, TlsDropsEverythingNegotiatedInTheClear) {
  World world({true, false});
  world.option(Option::kStructuredReply);
  world.option(Option::kStartTls);
  world.negotiation.tls_started();
  world.option(Option::kGo, go_data("disk"));
  EXPECT_FALSE(world.negotiation.structured());
}

TEST(Requests, AreCheckedBeforeAnythingIsDone) {
  const RequestRules rules{1000, false, true, true};
  const auto failure = [](Request request, RequestRules with) { return judge(request, with).failure; };
  const auto request = [](Command command, std::uint64_t offset, std::uint32_t length, std::uint16_t flags = 0) {
    return Request{flags, command, 1, offset, length};
  };
  EXPECT_EQ(failure(request(Command::kRead, 0, 1000), rules), Failure::kNone);
  EXPECT_EQ(failure(request(Command::kRead, 1, 1000), rules), Failure::kInvalid);
  EXPECT_EQ(failure(request(Command::kRead, ~std::uint64_t{0}, 2), rules), Failure::kInvalid);
  EXPECT_EQ(failure(request(Command::kWrite, 999, 2), rules), Failure::kNoSpace);
  EXPECT_EQ(failure(request(Command::kWriteZeroes, 999, 2), rules), Failure::kNoSpace);
  EXPECT_EQ(failure(request(Command::kTrim, 999, 2), rules), Failure::kInvalid);
  EXPECT_EQ(failure(request(static_cast<Command>(99), 0, 1), rules), Failure::kInvalid);
  EXPECT_EQ(failure(request(Command::kRead, 0, 1, kNoHole), rules), Failure::kInvalid);
  EXPECT_EQ(failure(request(Command::kRead, 0, 1, 1U << 9U), rules), Failure::kInvalid);
  EXPECT_EQ(failure(request(Command::kRead, 0, 1, kFua), rules), Failure::kNone);
  EXPECT_EQ(failure(request(Command::kRead, 0, 1, kDf), rules), Failure::kNone);
  EXPECT_EQ(failure(request(Command::kBlockStatus, 0, 0), rules), Failure::kInvalid);
  RequestRules plain = rules;
  plain.structured = plain.block_status = false;
  EXPECT_EQ(failure(request(Command::kRead, 0, 1, kDf), plain), Failure::kInvalid);
  EXPECT_EQ(failure(request(Command::kBlockStatus, 0, 1), plain), Failure::kInvalid);
  RequestRules still = rules;
  still.read_only = true;
  EXPECT_EQ(failure(request(Command::kWrite, 0, 1), still), Failure::kPermission);
  EXPECT_EQ(failure(request(Command::kTrim, 0, 1), still), Failure::kPermission);
  EXPECT_EQ(failure(request(Command::kFlush, 0, 0), still), Failure::kNone);
  EXPECT_TRUE(judge(request(Command::kWrite, 0, kMaxPayload + 1), rules).connection_lost);
}

}  // namespace
}  // namespace spate::nbd
