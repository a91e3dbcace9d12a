// SPDX-License-Identifier: Apache-2.0
// Finds places in texts written by hand, patches them, and runs one.
#include "preload/sites.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/expect.h"

namespace spate::preload {
namespace {

using Text = std::vector<std::uint8_t>;

std::vector<Site> all_sites(const Text& text, int* skipped) {
  std::vector<Site> sites;
  std::size_t from = 0;
  Site site{};
  while (next_site(text.data(), text.size(), &from, &site, skipped)) sites.push_back(site);
  return sites;
}

Text padded(const Text& code) {
  Text text(200, 0xc3);
  text.insert(text.end(), code.begin(), code.end());
  text.insert(text.end(), 200, 0xc3);
  return text;
}

TEST(SystemCallSites, TheMoveBeforeTheCallIsReplacedAndTheCallStays) {
  int skipped = 0;
  const auto sites = all_sites(padded({0xb8, 1, 1, 0, 0, 0x0f, 0x05}), &skipped);
  ASSERT_EQ(sites.size(), 1U);
  EXPECT_EQ(sites[0].begin, 200U);
  EXPECT_EQ(sites[0].syscall_at, 205U);
  EXPECT_EQ(sites[0].end, 207U);
  EXPECT_TRUE(sites[0].call_stays);
  EXPECT_EQ(skipped, 0);
}

TEST(SystemCallSites, ALoadBetweenTheMoveAndTheCallMovesToTheStub) {
  int skipped = 0;
  const auto sites = all_sites(padded({0xb8, 1, 0, 0, 0, 0x8b, 0x7c, 0x24, 0x08, 0x0f, 0x05}), &skipped);
  ASSERT_EQ(sites.size(), 1U);
  EXPECT_EQ(sites[0].begin, 200U);
  EXPECT_EQ(sites[0].syscall_at, 209U);
}

TEST(SystemCallSites, WithoutAMoveBeforeItTheComparisonBehindTheCallIsMoved) {
  int skipped = 0;
  const auto sites = all_sites(padded({0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff}), &skipped);
  ASSERT_EQ(sites.size(), 1U);
  EXPECT_EQ(sites[0].begin, 202U);
  EXPECT_EQ(sites[0].end, 210U);
  EXPECT_FALSE(sites[0].call_stays);
}

TEST(SystemCallSites, ASiteThatIsAJumpTargetIsLeftAlone) {
  // jmp to the call itself, from two bytes before the move
  int skipped = 0;
  EXPECT_THAT(all_sites(padded({0xeb, 0x05, 0xb8, 1, 0, 0, 0, 0x0f, 0x05}), &skipped), testing::IsEmpty());
  EXPECT_EQ(skipped, 1);
}

TEST(SystemCallSites, BytesThatAreNoKnownSiteAreSkipped) {
  int skipped = 0;
  EXPECT_THAT(all_sites(padded({0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}), &skipped),
              testing::IsEmpty());  // rt_sigreturn, which unwinders recognise by its bytes
  EXPECT_EQ(skipped, 1);
  for (std::size_t size = 0; size < 20; ++size) {  // at the end of the text
    Text text(size, 0x0f);
    if (size > 1) text[size - 1] = 0x05;
    all_sites(text, &skipped);
  }
}

/// Executable memory: a function that makes the system call getppid in the given form, and room for a stub.
struct Page {
  Page()
      : at(static_cast<std::uint8_t*>(
            mmap(nullptr, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Page() { munmap(at, 8192); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  long run(const Text& code, void (*enter)()) {
    std::memset(at, 0xcc, 8192);
    std::memcpy(at + 256, code.data(), code.size());
    std::size_t from = 0;
    int skipped = 0;
    Site site{};
    EXPECT_TRUE(next_site(at, 1024, &from, &site, &skipped));
    const auto text_address = reinterpret_cast<std::uint64_t>(at);
    EXPECT_LE(write_stub(at + 4096, at, text_address, site, reinterpret_cast<std::uint64_t>(enter)), kStubSize);
    EXPECT_TRUE(write_jump(at, text_address, site, text_address + 4096));
    long (*function)() = nullptr;
    const void* const begin = at + 256;
    std::memcpy(&function, &begin, sizeof function);
    return function();
  }
  std::uint8_t* const at;
};

// rcx tells the stub whether to call the kernel.
asm(R"(
  .text
sites_test_pass: movl $1, %ecx
  ret
sites_test_answer: movl $4711, %eax
  xorl %ecx, %ecx
  ret
)");
extern "C" void sites_test_pass();
extern "C" void sites_test_answer();

const Text kMoveForm = {0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05, 0xc3};
// The number is in edx first, so that there is no move into eax right before the call.
const Text kCompareForm = {0xb8, SYS_getppid, 0,    0,    0,    0x31, 0xff, 0x0f,
                           0x05, 0x48,        0x3d, 0x00, 0xf0, 0xff, 0xff, 0xc3};

TEST(SystemCallSites, APatchedSiteCallsTheKernelOrTheHandler) {
  Page page;
  EXPECT_EQ(page.run(kMoveForm, sites_test_pass), getppid());
  EXPECT_EQ(page.run(kMoveForm, sites_test_answer), 4711);
  EXPECT_EQ(page.run(kCompareForm, sites_test_pass), getppid());
  EXPECT_EQ(page.run(kCompareForm, sites_test_answer), 4711);
}

TEST(SystemCallSites, AJumpThatIsTooFarIsNotWritten) {
  Text text = padded(kMoveForm);
  const Text before = text;
  EXPECT_FALSE(write_jump(text.data(), 0x7f0000000000, Site{200, 205, 207, true}, 0x10000));
  EXPECT_EQ(text, before);
}

}  // namespace
}  // namespace spate::preload
