// SPDX-License-Identifier: Apache-2.0
// ChannelLink: the members of a group reach each other over the network.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "group/link.h"
#include "rpc/channel.h"

namespace spate::group {

struct ChannelLinkOptions {
  struct Member {
    ServerId server;
    std::vector<std::string> urls;
  };
  FsId fs;
  std::vector<Member> members;  // the other members
  Key server_key{};
  rpc::HandshakePolicy handshake;
  std::string description;  // "meta server 1"
};

/// Has one channel to each other member. One executor uses it; not movable. The network and random numbers outlive it.
class ChannelLink final : public Link {
 public:
  ChannelLink(ChannelLinkOptions options, job::NetworkContext& network, Random& random);

  job::Task<Result<Answer>> send(ServerId to, std::shared_ptr<const Message> message, Duration timeout,
                                 job::StopToken stop) override;

 private:
  job::NetworkContext& network_;
  std::uint64_t number_;  // of the last message; it begins at random, and names the message in logs, too
  rpc::Identity identity_;
  std::map<ServerId, std::unique_ptr<rpc::Channel>> channels_;
};

}  // namespace spate::group
