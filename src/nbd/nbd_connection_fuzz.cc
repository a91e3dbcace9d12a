// SPDX-License-Identifier: Apache-2.0
// Fuzzer of a whole connection: over a socket pair a client sends the input, from its first byte to the end of the
// transmission phase. The handshake's answers must be those of Negotiation alone. Every request is answered once, as
// judge() says and with the export's bytes. The connection ends in time, with nothing left in flight.
//
// Input: flags (2 bytes, see Script), how much is sent at once, then the client's bytes. Requests get their numbers as
// cookies. If a flag says so, payloads of writes are generated instead of taken from the input.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "log/log.h"
#include "nbd/connection.h"
#include "nbd/fuzz_session.h"
#include "nbd/local_ranges.h"

namespace spate::nbd::fuzz {
namespace {

/// Most steps of the executor until a connection is at rest.
constexpr std::size_t kMaxSteps = 1UL << 20U;
/// The client's bytes are sent in about this many pieces at most.
constexpr std::size_t kMaxSends = 2048;

/// A file in memory. With `later` no operation completes at once, and the first to begin may be the last to end.
class TestDevice final : public Device {
 public:
  explicit TestDevice(job::Executor& executor) : executor_(executor), fd_(::memfd_create("export", MFD_CLOEXEC)) {
    SPATE_CHECK(fd_);
    restore();
  }
  void begin(bool read_only, bool later) {
    read_only_ = read_only;
    later_ = later;
    made_resident_ = false;
  }
  void restore() {
    SPATE_CHECK(::ftruncate(fd_.get(), 0) == 0 && ::ftruncate(fd_.get(), kDeviceBytes) == 0);
    SPATE_CHECK(write_all(fd_.get(), 0, content().first(kDataBytes)).has_value());
  }
  /// Makes the file shorter than clients were told, as another process might.
  void shrink() { SPATE_CHECK(::ftruncate(fd_.get(), kDeviceBytes / 8) == 0); }

  std::uint64_t size() override {
    SPATE_CHECK(!looks_);
    return kDeviceBytes;
  }
  job::Task<void> look() override {
    looks_ = true;
    if (later_) co_await wait(2);
    looks_ = false;
  }
  bool read_only() const override { return read_only_; }
  std::string describe() const override { return "a file in memory"; }
  Result<void> read_now(std::uint64_t offset, MutableByteView memory) override {
    if (later_) return Errc::kTryAgain;
    return read_all(fd_.get(), offset, memory, 0);
  }
  Result<void> write_now(std::uint64_t offset, ByteView memory) override {
    if (later_) return Errc::kTryAgain;
    return write_all(fd_.get(), offset, memory);
  }
  bool takes_pipes() const override { return true; }
  Result<void> write_pipe_now(std::uint64_t offset, int pipe, std::size_t size) override {
    if (later_) return Errc::kTryAgain;
    return write_from_pipe(fd_.get(), offset, pipe, size);
  }
  int resident(const Extent& /*range*/) override { return later_ && !made_resident_ ? -1 : fd_.get(); }
  bool has_pages() const override { return true; }
  job::Task<Result<void>> read(std::uint64_t offset, MutableByteView memory) override {
    co_await wait(offset);
    co_return read_all(fd_.get(), offset, memory, 0);
  }
  job::Task<Result<void>> write(std::uint64_t offset, ByteView memory) override {
    co_await wait(offset);
    co_return write_all(fd_.get(), offset, memory);
  }
  job::Task<Result<void>> write_pipe(std::uint64_t offset, int pipe, std::size_t size) override {
    co_await wait(offset);
    co_return write_from_pipe(fd_.get(), offset, pipe, size);
  }
  job::Task<Result<void>> flush() override {
    co_await wait(0);
    co_return Result<void>();
  }
  job::Task<Result<void>> trim(Extent range) override {
    co_await wait(range.offset);
    co_return discard(LocalFile{fd_.get(), false}, range);
  }
  job::Task<Result<void>> zero(Extent range, ZeroParams params) override {
    co_await wait(range.offset);
    co_return zero_range(LocalFile{fd_.get(), false}, range, params);
  }
  job::Task<Result<void>> make_resident(Extent range) override {
    co_await wait(range.offset);
    made_resident_ = range.size % 2 == 0;  // otherwise the pages have left the cache again
    co_return Result<void>();
  }
  job::Task<Result<std::vector<StatusExtent>>> status(Extent range, std::size_t max) override {
    co_await wait(range.offset);
    co_return map_holes(LocalFile{fd_.get(), false}, range, max);
  }
  job::Task<Result<void>> close() override { co_return Result<void>(); }

 private:
  job::Task<void> wait(std::uint64_t offset) {
    for (std::uint64_t turns = offset % 3 + 1; turns > 0; --turns) co_await executor_.yield();
  }
  job::Executor& executor_;
  UniqueFd fd_;
  bool read_only_ = false;
  bool later_ = false;
  bool made_resident_ = false;
  bool looks_ = false;
};

/// Objects that outlive the runs, as in a server.
struct Bed {
  ManualClock clock;
  job::Executor executor{clock};
  SocketSource sockets{executor};
  ReplyBuffers buffers;
  Pipes pipes;
  std::size_t memory_in_flight = 0;
  MemoryBudget budget{executor, MemoryBudget::kBytes, [](void*) {}, nullptr};
  TestDevice device{executor};
};

/// One connection. The client's end never blocks.
class Run final : private ConnectionHost {
 public:
  Run(Bed& bed, const Script& script, const FuzzSession& session)
      : bed_(bed),
        script_(script),
        session_(session),
        world_{bed.executor, bed.sockets,   bed.buffers,          bed.pipes, bed.memory_in_flight, bed.budget,
               *this,        script.policy, script.send_file_from} {
    std::array<int, 2> ends{};
    SPATE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    client_ = UniqueFd(ends[0]);
    connection_ = std::make_unique<Connection>(world_, UniqueFd(ends[1]), ClientAddress{"fuzzer", {}});
  }

  /// Runs the connection to its end. Returns the server's bytes.
  Bytes drive() {
    connection_->start();
    while (connection_ != nullptr) {
      bool moved = send();
      settle();
      if (!script_.slow_reader) moved = receive() || moved;
      if (!moved && !receive() && connection_ != nullptr) say_no_more();
    }
    receive();
    SPATE_CHECK(bed_.memory_in_flight == 0 && bed_.budget.used() == 0 && bed_.buffers.in_use() == 0);
    return std::move(said_);
  }

 private:
  std::unique_ptr<Catalogue> catalogue(const ClientAddress& /*peer*/) override {
    return std::make_unique<Exports>(script_.read_only);
  }
  Device& device(const std::string& /*name*/) override { return bed_.device; }
  /// Goes on without TLS, to test the phase after it.
  Result<std::unique_ptr<Transport>> start_tls(int socket) override { return plain_transport(socket); }
  void ended(Connection& /*connection*/) override {
    bed_.executor.at_turn_end([this] { connection_.reset(); });  // as a server does
  }

  bool send() {
    const std::size_t end = rest_ < session_.rests.size() ? session_.rests[rest_] : session_.bytes.size();
    const std::size_t least = session_.bytes.size() / kMaxSends;
    const std::size_t wanted = std::min(std::max(script_.at_once, least), end - sent_);
    if (wanted == 0 || silent_) return false;
    const ssize_t n = ::send(client_.get(), session_.bytes.data() + sent_, wanted, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent_ += static_cast<std::size_t>(n);
    if (sent_ * 2 >= session_.bytes.size() && !std::exchange(half_sent_, true)) in_the_middle();
    return true;
  }
  void in_the_middle() {
    if (script_.shrinks) bed_.device.shrink();
    if (script_.server_finishes) connection_->finish();
  }
  bool receive() {
    if (!client_) return false;
    std::array<std::byte, 16384> room;
    bool any = false;
    for (;;) {
      const ssize_t n = ::recv(client_.get(), room.data(), room.size(), 0);
      if (n <= 0) return any;
      said_.insert(said_.end(), room.begin(), room.begin() + n);
      any = true;
    }
  }
  void settle() {
    for (std::size_t steps = 0; bed_.executor.step(); ++steps) SPATE_CHECK(steps < kMaxSteps);  // more steps: it spins
  }
  /// Nothing can happen any more without time or the client.
  void say_no_more() {
    const bool everything_sent = sent_ == session_.bytes.size();
    if (rest_ < session_.rests.size() && sent_ == session_.rests[rest_]) {
      ++rest_;
    } else if (!session_.transmission && everything_sent && script_.waits_in_handshake) {
      SPATE_CHECK(!std::exchange(timed_out_, true));  // twice: it waits for ever
      bed_.clock.advance(world_.negotiation_time);
    } else {
      SPATE_CHECK(!std::exchange(silent_, true));  // twice: the connection does not end
      if (script_.goes_away) {
        client_ = UniqueFd();
      } else {
        ::shutdown(client_.get(), SHUT_WR);
      }
    }
  }

  Bed& bed_;
  const Script& script_;
  const FuzzSession& session_;
  ConnectionWorld world_;
  UniqueFd client_;
  std::unique_ptr<Connection> connection_;
  Bytes said_;
  std::size_t sent_ = 0;
  std::size_t rest_ = 0;
  bool half_sent_ = false;
  bool silent_ = false;
  bool timed_out_ = false;
};

bool begins_with(ByteView whole, ByteView part) {
  return whole.size() >= part.size() && std::equal(part.begin(), part.end(), whole.begin());
}

void check(const Script& script, FuzzSession& session, ByteView said) {
  const bool cut = session.dropped || script.goes_away || script.server_finishes;
  if (cut && said.size() < session.handshake.size()) {
    SPATE_CHECK(begins_with(session.handshake, said));
    return;
  }
  SPATE_CHECK(begins_with(said, session.handshake));
  const ByteView rest = said.subspan(session.handshake.size());
  if (!session.transmission) {
    SPATE_CHECK(rest.empty());
    return;
  }
  Reader reader(session, rest, !session.changes && !script.shrinks, script.shrinks);
  const bool whole = reader.read();
  // Without structured replies, a file that has become shorter ends the connection.
  if (cut || (script.shrinks && !session.rules.structured)) return;
  SPATE_CHECK(whole);
  for (const Asked& asked : session.asked) SPATE_CHECK(asked.answered);
}

}  // namespace
}  // namespace spate::nbd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  static const bool quiet = log::set_levels("off").has_value();
  (void)quiet;
  static nbd::fuzz::Bed bed;
  const ByteView in(reinterpret_cast<const std::byte*>(data), size);
  if (size < nbd::fuzz::Script::kBytes) return 0;
  const nbd::fuzz::Script script(in);
  nbd::fuzz::FuzzSession session = nbd::fuzz::Writer(script, in.subspan(nbd::fuzz::Script::kBytes)).write();
  bed.device.begin(script.read_only, script.later);
  const Bytes said = nbd::fuzz::Run(bed, script, session).drive();
  nbd::fuzz::check(script, session, said);
  if (session.changes || script.shrinks) bed.device.restore();
  return 0;
}
