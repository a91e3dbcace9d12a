// SPDX-License-Identifier: Apache-2.0
// The keys of block exports.
#include "config/key_rows.h"

namespace spate::config {

std::vector<Key> block_rows() {
  return {
      row<&Config::block, &BlockConfig::addresses>(
          {"block", "addresses", Type::kTextList,
           "Where they listen by TCP. An address that other machines can reach needs TLS, or insecure.", "", 0, 16}),
      row<&Config::block, &BlockConfig::port>({"block", "port", Type::kCount, "The TCP port.", "", 1, 65535}),
      row<&Config::block, &BlockConfig::unix_path>(
          {"block", "unix", Type::kPath,
           "A Unix socket at which they listen, too, for the server's own user. Empty: none.", "", 0, 107}),
      row<&Config::block, &BlockConfig::tls>(
          {"block", "tls", Type::kPath,
           "Folder with server-cert.pem and server-key.pem. Clients by TCP must then use TLS. If the folder has "
           "ca-cert.pem, they also need a certificate.",
           "", 0, kMaxText}),
      row<&Config::block, &BlockConfig::tls_psk>(
          {"block", "tls_psk", Type::kPath,
           "File of keys for TLS, with lines \"name:hex\". Only the server's user may be able to read it.", "", 0,
           kMaxText}),
      row<&Config::block, &BlockConfig::insecure>(
          {"block", "insecure", Type::kChoice, "yes: other machines may connect without TLS.", "no|yes"}),
      item_row<&Config::exports, &ExportConfig::name>(
          {"exports", "name", Type::kText, "The name that clients ask for: nbd://host/NAME.", "", 1, 255, true}),
      item_row<&Config::exports, &ExportConfig::source>(
          {"exports", "source", Type::kText,
           "Absolute path of a file or block device of the server's machine, or spate:/PATH.", "", 1, kMaxText, true}),
      item_row<&Config::exports, &ExportConfig::server>(
          {"exports", "server", Type::kCount, "The server that serves it. 0: each server that has the role block.", "",
           0, kMaxServerId}),
      item_row<&Config::exports, &ExportConfig::read_only>(
          {"exports", "read_only", Type::kChoice, "yes: writes are refused.", "no|yes"}),
      item_row<&Config::exports, &ExportConfig::allow>(
          {"exports", "allow", Type::kTextList,
           "Who may use it: addresses, networks (10.0.0.0/8), \"unix\", and with TLS cert:NAME and psk:NAME. Empty: "
           "everybody who connects.",
           "", 0, 256}),
  };
}

}  // namespace spate::config
