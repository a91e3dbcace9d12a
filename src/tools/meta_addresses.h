// SPDX-License-Identifier: Apache-2.0
// The addresses of the meta servers on several machines and of their members of etcd, and the files with which the
// first of them begins.
#pragma once

#include <string>

#include "base/checksum.h"
#include "config/filesystem_config.h"
#include "tools/etcd_members.h"

namespace spate::tools {

/// "node1" of "tcp://node1:7400"; an IPv6 address keeps its brackets.
std::string host_of_url(const std::string& url);
/// kInvalidArgument unless `text` is HOST or HOST:PORT; yields it with a port.
Result<std::string> host_and_port(const std::string& text, std::uint32_t usual_port);

/// The member of etcd beside a meta server. It has the second and third port after the server's, so that all machines
/// know it by the server's address.
EtcdMember member_beside(const config::ServerConfig& meta);
/// Writes the addresses of all these members into the configuration, that of `own` first.
void set_coordinator(config::FileSystemConfig& config, const std::string& folder, ServerId own);

/// Makes the certificates of this machine for etcd, whose authority is derived from the server key. `towards`: a
/// machine that it will talk to.
Result<void> make_etcd_certificates(const std::string& folder, const Key& server_key, const std::string& host,
                                    const std::string& towards);
/// Makes certificates, and the settings of an etcd cluster of one. make_first_record() follows when it runs.
Result<void> create_first_member(const std::string& folder, const config::FileSystemConfig& config,
                                 const EtcdMember& member);
/// Settings of an etcd cluster of one. `has_begun`: etcd refuses to start without its records. Otherwise it would begin
/// a second cluster, with the identity of the first one, when they are lost.
EtcdSettings only_member(const std::string& folder, FsId fs, const EtcdMember& member, bool has_begun);
/// A file that is there until the group of meta servers has a record.
std::string no_record_mark(const std::string& folder);

}  // namespace spate::tools
