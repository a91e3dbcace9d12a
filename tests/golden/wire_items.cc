// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/golden/catalog.h"
#include "tests/golden/dump.h"
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

template <typename M>
Item item_of(const std::string& name, const M& value) {
  Item item;
  item.name = name;
  wire::encode_body(value, item.bytes);
  item.read = [expected = dump(value)](ByteView bytes) -> std::string {
    const auto message = wire::decode_body<M>(bytes);
    if (!message) return message.error().message();
    const std::string got = dump(*message);
    return got == expected ? "" : "read as\n" + got + "instead of\n" + expected;
  };
  return item;
}

template <typename M>
void add(std::vector<Item>& items, const std::string& name, int since = 1) {
  int number = 0;
  for (const M& value : samples<M>()) {
    ++number;
    items.push_back(item_of("wire/" + name + (number == 1 ? "" : "." + std::to_string(number)), value));
    items.back().since = since;
    items.back().comment = fmt::format("{}, protocol {}", M::kName, since);
  }
}

}  // namespace

std::vector<Item> wire_items() {
  std::vector<Item> items;
  add<wire::RequestHeader>(items, "request_header");
  add<wire::ReplyHeader>(items, "reply_header");
  add<wire::HelloOffer>(items, "hello_offer", 2);
  add<wire::HelloAnswer>(items, "hello_answer", 2);
  add<wire::AuthenticateFinish>(items, "authenticate_finish", 2);
  add<wire::Touched>(items, "touched");
  add<wire::Granted>(items, "granted");
  wire::for_each_operation([&]<typename Request, typename Reply>(wire::Op op) {
    add<Request>(items, fmt::format("{}.request", wire::op_name(op)));
    add<Reply>(items, fmt::format("{}.reply", wire::op_name(op)));
  });
  return items;
}

}  // namespace spate::golden
