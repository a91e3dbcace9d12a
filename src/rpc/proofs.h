// SPDX-License-Identifier: Apache-2.0
// Proof: what an address of a server asks of a client. A client knows it by the URL that it dials, a server by the
// connection; both have it from spate.toml, and no message says it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace spate::rpc {

enum class Proof : std::uint8_t {
  kKey,          // the client key or a user's key
  kNothing,      // whoever reaches the address is admitted
  kCertificate,  // one that TLS has verified, or the kernel's word (shm)
  kMunge,        // a credential of munge
};

/// "a key".
std::string_view name_of(Proof proof);
/// When a proof has failed at one address, a client goes on to no address whose proof has a lower number.
int strength_of(Proof proof);

/// The client's side: what each URL asks for.
struct AskedProofs {
  Proof usual = Proof::kKey;  // at URLs that `by_url` does not name
  std::map<std::string, Proof, std::less<>> by_url;
  std::set<std::string, std::less<>> avoided;  // URLs that this process does not dial
  bool munge_for_key = true;                   // where a key is asked for, a credential of munge counts as well

  Proof at(std::string_view url) const;
  /// Whether all these URLs ask for the same.
  bool alike(const std::vector<std::string>& urls) const;
};

/// One address at which a server listens.
struct Entrance {
  std::string url;
  std::vector<std::string> numeric;  // tcp: the same with each address that its host may mean
  Proof asked = Proof::kKey;
};

/// The server's side: what a connection's client must prove. A value.
class Entrances {
 public:
  /// All addresses ask for the same.
  Entrances(Proof all = Proof::kKey) : all_({Entrance{{}, {}, all}}) {}  // NOLINT(google-explicit-constructor)
  /// Not empty.
  explicit Entrances(std::vector<Entrance> all) : all_(std::move(all)) {}

  /// `peer`, `reached`: bmi::PeerInfo::url and reached of the connection. Nothing: it cannot be told by which address
  /// the peer has come.
  std::optional<Proof> at(std::string_view peer, std::string_view reached) const;

 private:
  std::vector<Entrance> all_;
};

}  // namespace spate::rpc
