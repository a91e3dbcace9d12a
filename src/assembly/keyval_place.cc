// SPDX-License-Identifier: Apache-2.0
#include "assembly/keyval_place.h"

#include <sys/stat.h>
#include <unistd.h>

namespace spate::assembly {
namespace {

bool holds_store(const std::string& folder) { return ::access((folder + "/CURRENT").c_str(), F_OK) == 0; }

/// Whether the folder's parent is on another device.
bool is_mount_point(const std::string& folder) {
  struct stat here{};
  struct stat parent{};
  return ::stat(folder.c_str(), &here) == 0 && ::stat((folder + "/..").c_str(), &parent) == 0 &&
         here.st_dev != parent.st_dev;
}

}  // namespace

std::string keyval_folder(const config::ServerConfig& server) {
  if (!server.keyval.empty()) return server.keyval;
  const std::string beside = server.storage.front() + ".keyval";
  const std::string inside = server.storage.front() + "/keyval";
  if (holds_store(beside)) return beside;
  return holds_store(inside) || is_mount_point(server.storage.front()) ? inside : beside;
}

}  // namespace spate::assembly
