// SPDX-License-Identifier: Apache-2.0
// The functions of a module that the conformance suite needs: a world in which several instances of it can reach each
// other.
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
  bool ready_anyway;  // it leaves messages untaken, so its descriptor tells nothing
};

/// What a module can do, as far as the suite must know it.
struct Traits {
  bool threads = true;        // false: in virtual time, one thread only
  bool file_segments = true;  // sends ranges of files
  bool virtual_time = false;  // wait_descriptor() is -1
  /// Bytes that the network itself may hold between two instances (in socket buffers), in addition to what either end
  /// buffers.
  std::uint64_t transit_bytes = 0;
};

/// Instances of one module that reach each other. Destroying a Network is the death of its process.
class World {
 public:
  struct Place {
    std::unique_ptr<Network> network;
    std::string listen_url;  // where this process may listen
  };

  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  virtual Traits traits() const = 0;
  /// The URL scheme, "tcp".
  virtual std::string scheme() const = 0;
  /// Starts a new process.
  virtual Place start(const NetworkOptions& options) = 0;
  /// Starts a process that died again. It may listen at `url`, which its earlier listen() returned.
  virtual std::unique_ptr<Network> restart(const std::string& url, const NetworkOptions& options) = 0;
  /// A well-formed URL at which nobody listens.
  virtual std::string dead_url() = 0;
  /// Waits a little for something to happen after a test that found nothing. False: nothing will ever happen by itself.
  /// The default sleeps on the wait descriptors.
  virtual bool wait(std::span<const Waiter> waiters);
};

/// Wraps each module that a world makes, for example in the fault decorator.
using Wrap = std::function<std::unique_ptr<Module>(std::unique_ptr<Module>)>;

/// A module under test.
struct Subject {
  std::string name;  // letters, digits, _
  std::function<std::unique_ptr<World>()> make;
};

/// Every module of this build: one line each in subjects.cc.
const std::vector<Subject>& subjects();

/// Why `test` need not hold for `subject`. Empty when it must hold.
std::string_view exclusion(std::string_view subject, std::string_view test);

/// Whether scripts/test-long runs the suite: more moments and seeds, and subjects that differ little from others.
bool thorough();

}  // namespace spate::bmi::conformance
