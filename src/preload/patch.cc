// SPDX-License-Identifier: Apache-2.0
#include "preload/patch.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/filter.h"
#include "preload/raw.h"
#include "preload/sites.h"

extern "C" void spate_preload_enter();

namespace spate::preload {
namespace {

constexpr int kTexts = 4;
constexpr size_t kMostSites = 1024;  // glibc 2.36 and its linker have 572
constexpr uint64_t kReach = 1900UL << 20U;

struct Text {
  uint8_t* bytes;
  size_t size;
};

struct Texts {
  Text of[kTexts];
  int count;
};

struct Planned {
  uint8_t* text;
  Site site;
  uint64_t stub;
};

struct Plan {
  Planned places[kMostSites];
  size_t count;
};

bool ends_with(const char* text, const char* end) {
  const size_t a = strlen(text);
  const size_t b = strlen(end);
  return a >= b && strcmp(text + a - b, end) == 0;
}

int add_texts(dl_phdr_info* object, size_t, void* data) {
  auto& texts = *static_cast<Texts*>(data);
  const char* const name = object->dlpi_name;
  if (!ends_with(name, "/libc.so.6") && !ends_with(name, "/ld-linux-x86-64.so.2")) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || texts.count == kTexts) continue;
    texts.of[texts.count++] = {reinterpret_cast<uint8_t*>(object->dlpi_addr + segment.p_vaddr),
                               segment.p_memsz};  // NOLINT(performance-no-int-to-ptr)
  }
  return 0;
}

uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

bool reaches(uint64_t from, const Texts& texts) {
  for (int i = 0; i < texts.count; ++i) {
    const uint64_t to = address(texts.of[i].bytes);
    if ((from > to ? from - to : to - from) > kReach) return false;
  }
  return true;
}

/// Memory for the stubs, so near that a jump from each text reaches it; null: there is none.
uint8_t* near_memory(const Texts& texts, size_t size) {
  constexpr uint64_t kStep = 32UL << 20U;
  const uint64_t middle = address(texts.of[0].bytes);
  for (uint64_t hint = 0, tries = 0; tries < 50; ++tries, hint = middle - tries * kStep) {
    const long got = raw(SYS_mmap, hint, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (failed(got)) return nullptr;
    if (reaches(static_cast<uint64_t>(got), texts))
      return reinterpret_cast<uint8_t*>(got);  // NOLINT(performance-no-int-to-ptr)
    raw(SYS_munmap, got, size);
  }
  return nullptr;
}

bool interesting(const uint8_t* text, const Site& site) {
  if (!site.call_stays) return true;  // the number is not known at this place
  uint32_t number = 0;
  memcpy(&number, text + site.begin + 1, sizeof number);
  return knows_call(number);
}

bool plan_text(const Text& text, uint8_t*& stubs, const uint8_t* stubs_end, Plan& plan) {
  size_t from = 0;
  int skipped = 0;
  Site site{};
  while (next_site(text.bytes, text.size, &from, &site, &skipped)) {
    if (!interesting(text.bytes, site)) continue;
    if (plan.count == kMostSites || stubs + kStubSize > stubs_end) return false;
    plan.places[plan.count++] = {text.bytes, site, address(stubs)};
    stubs += write_stub(stubs, text.bytes, address(text.bytes), site, reinterpret_cast<uint64_t>(&spate_preload_enter));
  }
  return true;
}

long protect(const Text& text, int how) {
  constexpr uint64_t kPage = 4096;
  const uint64_t begin = address(text.bytes) & ~(kPage - 1);
  return raw(SYS_mprotect, begin, address(text.bytes) + text.size - begin, how);
}

}  // namespace

const char* patch_c_library() {
  Texts texts{};
  dl_iterate_phdr(add_texts, &texts);
  if (texts.count == 0) return "this program's C library is not glibc";
  constexpr size_t kStubs = kMostSites * kStubSize;
  uint8_t* const stubs = near_memory(texts, kStubs);
  const long memory = raw(SYS_mmap, 0, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stubs == nullptr || failed(memory)) return "no memory near the C library";
  auto& plan = *reinterpret_cast<Plan*>(memory);  // NOLINT(performance-no-int-to-ptr)
  uint8_t* next = stubs;
  for (int i = 0; i < texts.count; ++i) {
    if (!plan_text(texts.of[i], next, stubs + kStubs, plan))
      return "the C library makes more system calls than expected";
  }
  if (plan.count < 100) return "the C library makes system calls in a way that is not known";
  if (failed(raw(SYS_mprotect, stubs, kStubs, PROT_READ | PROT_EXEC)))
    return "the kernel's policy forbids executable memory";
  for (int i = 0; i < texts.count; ++i) {
    if (failed(protect(texts.of[i], PROT_READ | PROT_WRITE)))
      return "the kernel's policy forbids changing the C library in memory";
  }
  // From here to the end of the loop no function of the C library may be called.
  for (size_t i = 0; i < plan.count; ++i) {
    const Planned& place = plan.places[i];
    write_jump(place.text, address(place.text), place.site, place.stub);
  }
  for (int i = 0; i < texts.count; ++i) protect(texts.of[i], PROT_READ | PROT_EXEC);
  raw(SYS_munmap, memory, sizeof(Plan));
  return nullptr;
}

}  // namespace spate::preload
