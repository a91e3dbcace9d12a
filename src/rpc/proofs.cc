// SPDX-License-Identifier: Apache-2.0
#include "rpc/proofs.h"

#include <algorithm>

namespace spate::rpc {
namespace {

std::string_view scheme_part(std::string_view url) { return url.substr(0, url.find("://")); }
std::string_view port_part(std::string_view url) { return url.substr(url.rfind(':') + 1); }

using Chosen = std::vector<const Entrance*>;

bool differ(const Chosen& some) {
  return std::ranges::any_of(some, [&](const Entrance* one) { return one->asked != some.front()->asked; });
}

}  // namespace

std::string_view name_of(Proof proof) {
  switch (proof) {
    case Proof::kKey: return "a key";
    case Proof::kNothing: return "nothing";
    case Proof::kCertificate: return "a certificate";
    case Proof::kMunge: return "a credential of munge";
  }
  return "something unknown";
}

int strength_of(Proof proof) {
  switch (proof) {
    case Proof::kNothing: return 0;
    case Proof::kMunge: return 1;
    case Proof::kCertificate: return 2;
    case Proof::kKey: return 3;
  }
  return 0;
}

Proof AskedProofs::at(std::string_view url) const {
  const auto found = by_url.find(url);
  return found == by_url.end() ? usual : found->second;
}

bool AskedProofs::alike(const std::vector<std::string>& urls) const {
  return by_url.empty() ||
         std::ranges::all_of(urls, [&](const std::string& url) { return at(url) == at(urls.front()); });
}

std::optional<Proof> Entrances::at(std::string_view peer, std::string_view reached) const {
  Chosen chosen;
  for (const Entrance& one : all_) chosen.push_back(&one);
  const auto keep = [&chosen](auto fits) { std::erase_if(chosen, [&](const Entrance* one) { return !fits(*one); }); };
  if (differ(chosen)) {
    const std::string_view scheme = scheme_part(reached.empty() ? peer : reached);
    keep([&](const Entrance& one) { return scheme_part(one.url) == scheme; });
  }
  if (differ(chosen)) keep([&](const Entrance& one) { return port_part(one.url) == port_part(reached); });
  if (differ(chosen))
    keep([&](const Entrance& one) { return std::ranges::find(one.numeric, reached) != one.numeric.end(); });
  if (chosen.empty() || differ(chosen)) return std::nullopt;
  return chosen.front()->asked;
}

}  // namespace spate::rpc
