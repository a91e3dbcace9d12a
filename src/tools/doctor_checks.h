// SPDX-License-Identifier: Apache-2.0
// The checks of `spate doctor`, over an interface to the machine. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/filesystem_config.h"
#include "tools/voters.h"

namespace spate::tools {

/// The facts about a machine that doctor needs. system_machine() is the real one; tests have their own. Each call
/// answers at once.
class Machine {
 public:
  virtual ~Machine() = default;
  /// The contents of a small file, such as those of /proc and /sys.
  virtual Result<std::string> read(const std::string& file) const = 0;
  virtual Result<std::vector<std::string>> list(const std::string& folder) const = 0;
  enum class Limit : std::uint8_t { kDescriptors, kLockedMemory };
  /// The limit to which a program may raise it; UINT64_MAX: no limit.
  virtual std::uint64_t limit(Limit which) const = 0;
  /// "6.1.0-18-amd64"
  virtual std::string kernel() const = 0;
  virtual bool is_root() const = 0;
  /// Whether the program is in a folder of PATH.
  virtual bool has_program(const std::string& name) const = 0;
  virtual Result<void> open_fuse() const = 0;
  virtual Result<void> make_ring() const = 0;  // makes and closes an io_uring
  /// Whether a program keeps the clock right.
  virtual bool clock_is_kept() const = 0;
  struct Space {
    std::uint64_t total = 0;      // bytes
    std::uint64_t available = 0;  // bytes, to ordinary users
    bool operator==(const Space&) const = default;
  };
  /// Space of the device that holds `folder`.
  virtual Result<Space> space(const std::string& folder) const = 0;
  enum class Port : std::uint8_t { kFree, kServer, kOther, kRefused };
  /// Which program listens at a server's TCP address: none, that server, or another one. kRefused: this user may not
  /// listen there.
  virtual Port port(const config::ServerConfig& server, const std::string& url) const = 0;
};

enum class Verdict : std::uint8_t { kOk, kWarning, kFailure };

struct Diagnosis {
  std::string check;  // "io_uring"
  Verdict verdict = Verdict::kOk;
  std::string what;    // the finding
  std::string advice;  // the advice; empty if nothing is to be done
};

/// The servers of a file system that belong on this machine.
struct DoctorSubject {
  std::vector<config::ServerConfig> servers;
  std::vector<VoterState> voters = {};  // the members of the file system's etcd
};

/// All checks, in the order in which they are shown. Without a subject, the checks of ports and stores are left out.
std::vector<Diagnosis> examine(const Machine& machine, const std::optional<DoctorSubject>& subject);

}  // namespace spate::tools
