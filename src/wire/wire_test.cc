// SPDX-License-Identifier: Apache-2.0

#include "base/expect.h"
#include "wire/io_messages.h"
#include "wire/meta_messages.h"
#include "wire/xattr_messages.h"

namespace spate::wire {
namespace {

/// Encoding, decoding and encoding again gives the same bytes; every truncation of them is refused.
template <typename M>
void expect_round_trip(const M& message) {
  Bytes once;
  encode_body(message, once);
  const auto decoded = decode_body<M>(once);
  ASSERT_OK(decoded) << M::kName;
  Bytes twice;
  encode_body(*decoded, twice);
  EXPECT_EQ(once, twice) << M::kName;
  for (std::size_t n = 0; n < once.size(); ++n) {
    EXPECT_ERRC(decode_body<M>(ByteView(once).first(n)), Errc::kCorrupt) << M::kName << " cut to " << n;
  }
  once.push_back(std::byte{0});
  EXPECT_ERRC(decode_body<M>(once), Errc::kCorrupt) << M::kName << " with a byte more";
}

TEST(Wire, HeadersRoundTrip) {
  RequestHeader request;
  request.op = Op::kWrite;
  request.id = {3, 17};
  request.capability.emplace();
  request.capability->handle = Handle(9);
  expect_round_trip(request);
  ReplyHeader reply;
  reply.status = Errc::kNoSpace;
  reply.context = "target 257";
  expect_round_trip(reply);
}

TEST(Wire, TheRequestHeaderIsAsDocumented) {
  RequestHeader header;
  header.op = Op::kPing;
  header.fs = FsId(0x0102030405060708ULL);
  Bytes bytes;
  encode_body(header, bytes);
  ASSERT_EQ(bytes.size(), 2U + 2 + 8 + 8 + 4 + 8 + 8 + 1 + 4 + 4 + 2 + 8 + 1);
  EXPECT_EQ(bytes[0], std::byte{2});
  EXPECT_EQ(bytes[2], std::byte{3});
  EXPECT_EQ(bytes[4], std::byte{8});
  EXPECT_EQ(bytes[11], std::byte{1});
}

TEST(Wire, NameSpaceMessagesRoundTrip) {
  CreateRequest create;
  create.where.path = "a/b";
  create.attributes.uid = 5;
  create.layout.targets = {TargetId(257), TargetId(513)};
  expect_round_trip(create);
  OpenReply opened;
  opened.object.layout.emplace();
  opened.object.layout->slots = {Slot{{TargetId(257)}}};
  expect_round_trip(opened);
  ReaddirReply listing;
  listing.entries.resize(2);
  listing.entries[1].name = std::string("\xff\x01", 2);
  listing.entries[1].attributes.emplace();
  expect_round_trip(listing);
  SetattrRequest set;
  set.mtime = WallTime{-1};
  set.data.emplace();
  expect_round_trip(set);
  SetxattrRequest xattr;
  xattr.value = Bytes(3);
  expect_round_trip(xattr);
}

TEST(Wire, DataMessagesRoundTrip) {
  ReadRequest read;
  read.where.slots = {{0, TargetId(257)}, {3, TargetId(1024)}};
  read.what = *datatype::Description::contiguous(4096, 1U << 20U);
  expect_round_trip(read);
  WriteRequest write;
  write.what = read.what;
  write.has_inline_data = true;
  write.data = Bytes(10);
  expect_round_trip(write);
  ReadReply reply;
  reply.datafiles.resize(2);
  reply.stream_bytes = {1, 2};
  reply.data = Bytes(3);
  expect_round_trip(reply);
}

TEST(Wire, ALyingCountCostsNoMemory) {
  Bytes bytes;
  Encoder out(bytes);
  out.u32(0xFFFFFFFF);
  EXPECT_ERRC(decode_body<ListxattrReply>(bytes), Errc::kCorrupt);
}

TEST(Wire, AProofIsValidOnlyForItsFieldsAndNonces) {
  Key key{};
  key[0] = std::byte{1};
  AuthenticateRequest request;
  request.client = ClientId(7);
  Nonce nonce{};
  const Mac proof = auth_proof(key, request, nonce);
  request.proof = proof;
  EXPECT_EQ(auth_proof(key, request, nonce), proof);
  request.client = ClientId(8);
  EXPECT_NE(auth_proof(key, request, nonce), proof);
  request.client = ClientId(7);
  nonce[0] = std::byte{1};
  EXPECT_NE(auth_proof(key, request, nonce), proof);
}

TEST(ReplyHeader, AnErrorArrivesUnchanged) {
  const auto told = [](const Error& error) { return error_of(error.code(), context_of(error)).message(); };
  EXPECT_EQ(told(Errc::kNotFound), "no such file or directory");
  EXPECT_EQ(told(Error(Errc::kIoError, "target 257")), "target 257: input/output error");
  EXPECT_EQ(told(Error::told(Errc::kInvalidArgument, "a target is named twice")), "a target is named twice");
  EXPECT_EQ(told(error_of(Errc::kIoError, "target 257: input/output error")), "target 257: input/output error");
  const Error leads_out = error_of(Errc::kCrossDevice, context_of(Error(Errc::kCrossDevice, "/else/where")));
  EXPECT_EQ(leads_out.context(), "/else/where");
}

}  // namespace
}  // namespace spate::wire
