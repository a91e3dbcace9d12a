// SPDX-License-Identifier: Apache-2.0
// What the conformance suite needs of a module: a world in which several instances of it can talk to one another.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bmi/network.h"

namespace spate::bmi::conformance {

/// An instance and one of its contexts, as World::wait needs it.
struct Waiter {
  Network* network;
  ContextId context;
  bool ready_anyway;  // leaves messages untaken, so that its descriptor says nothing
};

/// What a module can do and what the suite must know of it.
struct Traits {
  bool threads = true;        // false: in virtual time, one thread only
  bool file_segments = true;  // sends ranges of files
  bool virtual_time = false;  // wait_descriptor() is -1
  /// Bytes that the network itself may hold between two instances (socket buffers), beyond what either end buffers.
  std::uint64_t transit_bytes = 0;
};

/// Instances of one module that reach each other. Destroying a Network is the death of its process.
class World {
 public:
  struct Place {
    std::unique_ptr<Network> network;
    std::string listen_url;  // where this one may listen
  };

  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  virtual Traits traits() const = 0;
  /// "tcp": what stands before "://".
  virtual std::string scheme() const = 0;
  /// A new process.
  virtual Place start(const NetworkOptions& options) = 0;
  /// A process that died comes back and may listen at `url`, which its earlier listen() returned.
  virtual std::unique_ptr<Network> restart(const std::string& url, const NetworkOptions& options) = 0;
  /// A well-formed URL at which nobody listens.
  virtual std::string dead_url() = 0;
  /// Testing found nothing: waits a little for something to happen. False: nothing will ever happen by itself.
  /// The default sleeps on the wait descriptors.
  virtual bool wait(std::span<const Waiter> waiters);
};

/// Puts something around each module that a world makes (the fault decorator).
using Wrap = std::function<std::unique_ptr<Module>(std::unique_ptr<Module>)>;

/// A module under test.
struct Subject {
  std::string name;  // letters, digits, _
  std::function<std::unique_ptr<World>()> make;
};

/// Every module of this build: one line each in subjects.cc.
const std::vector<Subject>& subjects();

/// Why `test` does not hold for `subject`; empty when it must.
std::string_view exclusion(std::string_view subject, std::string_view test);

}  // namespace spate::bmi::conformance
