// SPDX-License-Identifier: Apache-2.0
// One process has two libraries that keep registrations of the caller's memory: bmi over libfabric, and MPI with its
// own hooks. Both send the same buffers from two ranks at the same time. Between transfers, other pages are mapped at
// the same addresses. Each library must deliver the bytes that the buffer had at the send. This is the open problem of
// the BMI paper, section 6.
#include <mpi.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bmi/network.h"
#include "bmi/ofi/ofi_module.h"

namespace spate::bmi {
namespace {

constexpr std::size_t kSize = 4 << 20;
constexpr int kRounds = 60;

MutableByteView map(void* at) {
  const int fixed = at == nullptr ? 0 : MAP_FIXED;
  void* const p = ::mmap(at, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  SPATE_CHECK(p != MAP_FAILED);
  return {static_cast<std::byte*>(p), kSize};
}

class End {
 public:
  explicit End(int rank) : rank_(rank) {
    auto module = ofi::make_ofi_module(clock_);
    module_ = module.get();
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(std::move(module));
    network_ = make_network(std::move(modules));
    context_ = network_->open_context();
    meet();
  }
  void step() {
    std::array<Completion, 8> done;
    const std::size_t n = network_->test_context(context_, done);
    for (std::size_t i = 0; i < n; ++i) SPATE_CHECK(done[i].status == Errc::kOk);
    open_ -= n;
  }
  void drain() {
    while (open_ > 0) step();
  }
  void send(MutableByteView memory) {
    const Segment segment = Segment::of(memory);
    note(network_->post_send({peer_, Tag(2), MessageClass::kBulk, {&segment, 1}}, context_, nullptr));
  }
  void receive(MutableByteView memory) {
    const Segment segment = Segment::of(memory);
    note(network_->post_recv({peer_, Tag(2), MessageClass::kBulk, {&segment, 1}}, context_, nullptr));
  }
  PinCounters pins() const { return module_->pin_counters(); }
  std::uint64_t read_bytes() const { return module_->counters().read_bytes; }

 private:
  void note(const Result<Posted>& posted) {
    SPATE_CHECK(posted.has_value());
    if (!posted->done) ++open_;
  }
  void meet() {
    std::array<char, 256> url{};
    if (rank_ == 0) {
      const std::string mine = network_->listen("ofi+tcp://127.0.0.1:0", context_).value();
      std::memcpy(url.data(), mine.c_str(), mine.size() + 1);
    }
    MPI_Bcast(url.data(), url.size(), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank_ == 1) {
      peer_ = network_->lookup(std::array{std::string(url.data())}).value();
      Message hello;
      hello.peer = peer_;
      note(network_->post_send_unexpected(hello, context_, nullptr));
      drain();
      return;
    }
    std::array<UnexpectedMessage, 1> first;
    while (network_->test_unexpected(context_, first) == 0) step();
    peer_ = first[0].peer;
  }

  const int rank_;
  SystemClock clock_;
  ofi::OfiModule* module_ = nullptr;
  std::unique_ptr<Network> network_;
  ContextId context_;
  Address peer_;
  std::uint64_t open_ = 0;
};

bool all(MutableByteView memory, int value) {
  for (const std::byte b : memory) {
    if (b != static_cast<std::byte>(value)) return false;
  }
  return true;
}

/// Sends the same buffer by both libraries at once, and then checks what arrived by each.
bool exchange(End& end, int rank, MutableByteView memory, MutableByteView by_bmi, MutableByteView by_mpi, int value) {
  if (rank == 1) std::memset(memory.data(), value, memory.size());
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1) {
    MPI_Isend(memory.data(), static_cast<int>(kSize), MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request);
    end.send(memory);
  } else {
    MPI_Irecv(by_mpi.data(), static_cast<int>(kSize), MPI_BYTE, 1, 3, MPI_COMM_WORLD, &request);
    end.receive(by_bmi);
  }
  end.drain();
  // The other side may need this side's progress to continue.
  for (int done = 0; done == 0; end.step()) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return rank == 1 || (all(by_bmi, value) && all(by_mpi, value));
}

void fork_and_write(MutableByteView memory) {
  const pid_t child = ::fork();
  SPATE_CHECK(child >= 0);
  if (child == 0) {
    std::memset(memory.data(), 0x77, memory.size());  // its own copy
    ::_exit(0);
  }
  int status = 0;
  SPATE_CHECK(::waitpid(child, &status, 0) == child);
}

int run(int rank) {
  End end(rank);
  const MutableByteView memory = map(nullptr);
  const MutableByteView by_bmi = map(nullptr);
  const MutableByteView by_mpi = map(nullptr);
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (!exchange(end, rank, memory, by_bmi, by_mpi, 1 + round)) ++wrong;
    if (rank == 1 && round % 3 == 1) {
      SPATE_CHECK(::munmap(memory.data(), kSize) == 0);
      SPATE_CHECK(map(memory.data()).data() == memory.data());
    }
    if (rank == 1 && round % 10 == 5) fork_and_write(memory);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  const PinCounters pins = end.pins();
  if (rank == 1)
    std::printf("pins: %llu hits, %llu misses, %llu invalidations\n", static_cast<unsigned long long>(pins.hits),
                static_cast<unsigned long long>(pins.misses), static_cast<unsigned long long>(pins.invalidations));
  if (rank == 0)
    std::printf("%d of %d rounds wrong, %llu bytes read straight into place\n", wrong, kRounds,
                static_cast<unsigned long long>(end.read_bytes()));
  const bool registered = rank == 0 ? end.read_bytes() > 0 : pins.misses >= kRounds / 3;
  return wrong == 0 && registered ? 0 : 1;
}

}  // namespace
}  // namespace spate::bmi

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int result = spate::bmi::run(rank);
  MPI_Finalize();
  return result;
}
