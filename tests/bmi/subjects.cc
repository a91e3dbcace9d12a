// SPDX-License-Identifier: Apache-2.0
// The modules under test, and the tests that do not hold for one of them.
#include <array>
#include <cstdlib>

#include "bmi/fault/fault_module.h"
#include "tests/bmi/sim_world.h"
#include "tests/bmi/subject.h"
#ifdef SPATE_HAS_BMI_OFI
#include "tests/bmi/ofi_world.h"
#endif
#ifdef SPATE_HAS_BMI_SHM
#include "tests/bmi/shm_world.h"
#endif
#ifdef SPATE_HAS_BMI_TCP
#include "tests/bmi/tcp_world.h"
#endif
#ifndef __has_feature  // g++
#define __has_feature(x) 0
#endif

namespace spate::bmi::conformance {
namespace {

// A decorator without a plan, which must change nothing. It is put around each module once, not around each way to use
// it: the decorator sees neither TLS nor a provider of libfabric.
std::unique_ptr<Module> no_fault(std::unique_ptr<Module> inner) {
  return std::make_unique<fault::FaultModule>(std::move(inner), std::make_shared<fault::Plan>());
}

#ifdef SPATE_HAS_BMI_TCP
/// Large bulk messages leave from the sender's memory, which is in use until the kernel reports otherwise.
std::unique_ptr<World> lending_world() {
  tcp::TcpOptions options;
  options.lend = tcp::TcpOptions::Lend::kAlways;
  return std::make_unique<TcpWorld>(Wrap(), options);
}
#endif

std::vector<Subject> everywhere() {
  return {
// In virtual time there is one thread, so ThreadSanitizer finds nothing there, in half of its run.
#if !__has_feature(thread_sanitizer)
      {"sim", [] { return std::make_unique<SimWorld>(); }},
      {"fault_sim", [] { return std::make_unique<SimWorld>(no_fault); }},
#endif
#ifdef SPATE_HAS_BMI_TCP
      {"tcp", [] { return std::make_unique<TcpWorld>(); }},
      {"fault_tcp", [] { return std::make_unique<TcpWorld>(no_fault); }},
      {"tcp_lending", lending_world},
      {"tls", [] { return std::make_unique<TcpWorld>(Wrap(), tcp::TcpOptions(), true); }},
#endif
#ifdef SPATE_HAS_BMI_SHM
      {"shm", [] { return std::make_unique<ShmWorld>(); }},
      {"fault_shm", [] { return std::make_unique<ShmWorld>(no_fault); }},
#endif
// ThreadSanitizer does not know the locks inside libfabric.
#if defined(SPATE_HAS_BMI_OFI) && !__has_feature(thread_sanitizer)
      {"ofi_tcp", [] { return std::make_unique<OfiWorld>("tcp"); }},
      {"ofi_shm", [] { return std::make_unique<OfiWorld>("shm"); }},
#endif
  };
}

// The decorator looks the same around all modules, and this one takes the most time.
void add_thorough([[maybe_unused]] std::vector<Subject>& all) {
#if defined(SPATE_HAS_BMI_OFI) && !__has_feature(thread_sanitizer)
  if (thorough()) all.push_back({"fault_ofi_tcp", [] { return std::make_unique<OfiWorld>("tcp", no_fault); }});
#endif
}

// SPATE_TEST_VERBS: the address of an RDMA device of this host, as tests/vm gives one.
void add_verbs([[maybe_unused]] std::vector<Subject>& all) {
#ifdef SPATE_HAS_BMI_OFI
  const char* const address = std::getenv("SPATE_TEST_VERBS");
  if (address == nullptr) return;
  const std::string node = address;
  all.push_back({"ofi_verbs", [node] { return std::make_unique<OfiWorld>("verbs", Wrap(), node); }});
  all.push_back({"fault_ofi_verbs", [node] { return std::make_unique<OfiWorld>("verbs", no_fault, node); }});
#endif
}

}  // namespace

bool thorough() { return std::getenv("SPATE_TEST_THOROUGH") != nullptr; }

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = [] {
    std::vector<Subject> found = everywhere();
    add_thorough(found);
    add_verbs(found);
    return found;
  }();
  return all;
}

namespace {
struct Exclusion {
  std::string_view subject;
  std::string_view test;
  std::string_view reason;
};
// One line each: subject, test, why. Must shrink.
constexpr std::array<Exclusion, 2> kExclusions{{
    {"ofi_shm", "ARestartedServerIsReachedByTheNextPost",
     "libfabric 1.17's shm provider ends a process that reopens a name"},
    {"ofi_shm", "ADeadServerIsUnreachableUntilItComesBack",
     "libfabric 1.17's shm provider ends a process that reopens a name"},
}};
}  // namespace

std::string_view exclusion(std::string_view subject, std::string_view test) {
  for (const Exclusion& e : kExclusions) {
    if (e.subject == subject && e.test == test) return e.reason;
  }
  return {};
}

}  // namespace spate::bmi::conformance
