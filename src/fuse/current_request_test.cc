// SPDX-License-Identifier: Apache-2.0
// A caller is killed at any moment of its request: the request is answered once, and not used afterwards. Sanitizers
// see each use of an answered request.
#include "fuse/current_request.h"

#include <linux/fuse.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/expect.h"
#include "fuse/mount.h"

namespace spate::fuse {
namespace {

constexpr pid_t kKilled = 4711;
constexpr std::uint64_t kUnique = 8;

/// libfuse with the test in place of the kernel. Its handler of FUSE_STATFS waits once.
class CurrentRequestTest : public ::testing::Test {
 protected:
  CurrentRequestTest() {
    fuse_lowlevel_ops operations{};
    operations.statfs = [](fuse_req_t request, fuse_ino_t) { handler(request); };
    char name[] = "test";
    char* words[] = {name, nullptr};
    fuse_args arguments = FUSE_ARGS_INIT(1, words);
    session_ = fuse_session_new(&arguments, &operations, sizeof(operations), this);
    fuse_custom_io io{};
    io.writev = [](int, iovec* parts, int count, void* test) {
      return static_cast<CurrentRequestTest*>(test)->hear(parts, count);
    };
    io.read = [](int, void*, std::size_t, void*) -> ssize_t { return 0; };
    EXPECT_EQ(fuse_session_custom_io(session_, &io, ::dup(0)), 0);
    handler = [](fuse_req_t) {};
    CurrentRequest::is_being_killed = [](pid_t thread) { return thread == kKilled; };
    fuse_init_in init{};
    init.major = FUSE_KERNEL_VERSION;
    init.minor = FUSE_KERNEL_MINOR_VERSION;
    send(FUSE_INIT, 2, init);
    answers_.clear();
  }
  ~CurrentRequestTest() override {
    fuse_session_destroy(session_);
    CurrentRequest::is_being_killed = usual_;
  }
  template <typename Body>
  void send(std::uint32_t opcode, std::uint64_t unique, const Body& body) {
    std::vector<std::byte> bytes(sizeof(fuse_in_header) + sizeof(Body));
    fuse_in_header header{};
    header.len = static_cast<std::uint32_t>(bytes.size());
    header.opcode = opcode;
    header.unique = unique;
    header.nodeid = FUSE_ROOT_ID;
    header.pid = static_cast<std::uint32_t>(kKilled);
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &body, sizeof(body));
    fuse_buf buffer{};
    buffer.mem = bytes.data();
    buffer.size = bytes.size();
    fuse_session_process_buf(session_, &buffer);
  }
  void interrupt() { send(FUSE_INTERRUPT, kUnique + 1, fuse_interrupt_in{kUnique}); }
  void ask() { send(FUSE_STATFS, kUnique, std::uint64_t{}); }

  static inline std::function<void(fuse_req_t)> handler;
  static void begin(pid_t caller) {
    alignas(Mount) static std::array<std::byte, sizeof(Mount)> unused;
    CurrentRequest::of_this_thread().begin(*reinterpret_cast<Mount*>(unused.data()), kUnique, {1000, 100, caller}, {});
  }
  std::vector<int> answers_;  // errors

 private:
  ssize_t hear(const iovec* parts, int count) {
    fuse_out_header header{};
    std::memcpy(&header, parts[0].iov_base, sizeof(header));
    if (header.unique == kUnique) answers_.push_back(-header.error);
    ssize_t all = 0;
    for (int i = 0; i < count; ++i) all += static_cast<ssize_t>(parts[i].iov_len);
    return all;
  }
  bool (*const usual_)(pid_t) = CurrentRequest::is_being_killed;
  fuse_session* session_ = nullptr;
};

TEST_F(CurrentRequestTest, AnInterruptBeforeTheWaitIsAnsweredOnce) {
  handler = [](fuse_req_t request) {
    begin(kKilled);
    CurrentRequest& current = CurrentRequest::of_this_thread();
    current.begin_wait(request);
    EXPECT_TRUE(current.abandoned()) << "the killed caller still waits";
    current.end_wait();
  };
  interrupt();
  ask();
  EXPECT_EQ(answers_, std::vector<int>{EINTR});
}

TEST_F(CurrentRequestTest, AnInterruptBetweenTwoWaitsIsAnsweredOnce) {
  handler = [this](fuse_req_t request) {
    begin(kKilled);
    CurrentRequest& current = CurrentRequest::of_this_thread();
    current.begin_wait(request);
    current.end_wait();
    EXPECT_FALSE(current.abandoned()) << "answered too early";
    interrupt();
    current.begin_wait(request);
    EXPECT_TRUE(current.abandoned()) << "the killed caller still waits";
    current.end_wait();
  };
  ask();
  EXPECT_EQ(answers_, std::vector<int>{EINTR});
}

TEST_F(CurrentRequestTest, AnInterruptDuringTheWaitIsAnsweredOnceAndTheCallerIsStillKnown) {
  handler = [this](fuse_req_t request) {
    begin(kKilled);
    CurrentRequest& current = CurrentRequest::of_this_thread();
    current.begin_wait(request);
    std::thread([this] { interrupt(); }).join();
    current.end_wait();
    EXPECT_TRUE(current.abandoned()) << "the killed caller still waits";
    EXPECT_EQ(current.caller().uid, 1000U);
    EXPECT_EQ(current.caller().pid, kKilled);
  };
  ask();
  EXPECT_EQ(answers_, std::vector<int>{EINTR});
}

TEST_F(CurrentRequestTest, OtherSignalsInterruptNothing) {
  handler = [](fuse_req_t request) {
    begin(1);
    CurrentRequest& current = CurrentRequest::of_this_thread();
    current.begin_wait(request);
    current.end_wait();
    EXPECT_FALSE(current.abandoned()) << "answered too early";
    fuse_reply_err(request, ENOENT);
  };
  interrupt();
  ask();
  EXPECT_EQ(answers_, std::vector<int>{ENOENT});
}

}  // namespace
}  // namespace spate::fuse
