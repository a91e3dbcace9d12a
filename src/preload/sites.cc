// SPDX-License-Identifier: Apache-2.0
#include "preload/sites.h"

#include <emmintrin.h>
#include <string.h>

#include <initializer_list>

namespace spate::preload {
namespace {

constexpr size_t kCall = 2;  // 0f 05
constexpr size_t kMove = 5;  // b8 and the number
constexpr size_t kShortJump = 2;
constexpr size_t kNearby = 127;  // the reach of a short jump

bool is_call(const uint8_t* p) { return p[0] == 0x0f && p[1] == 0x05; }

/// Whether a short jump nearby may lead to `target`. Operands that only look like such a jump count, too.
bool jumped_to(const uint8_t* text, size_t size, size_t target) {
  const size_t begin = target > kNearby + kShortJump ? target - kNearby - kShortJump : 0;
  const size_t end = target + kNearby + 1 < size ? target + kNearby + 1 : size;
  for (size_t at = begin; at + kShortJump <= end; ++at) {
    const uint8_t code = text[at];
    if (code != 0xeb && (code & 0xf0U) != 0x70) continue;
    const auto distance = static_cast<int8_t>(text[at + 1]);
    if (static_cast<int64_t>(at + kShortJump) + distance == static_cast<int64_t>(target)) return true;
  }
  return false;
}

/// The size of the instruction after the call if it is one of the comparisons that glibc uses there; otherwise 0.
size_t comparison(const uint8_t* p, size_t room) {
  if (room >= 6 && p[0] == 0x48 && p[1] == 0x3d) return 6;  // cmp $imm32, %rax
  if (room >= 5 && p[0] == 0x3d) return 5;                  // cmp $imm32, %eax
  return 0;
}

/// Size of a load between the move of the number and the call, if it is one that works at any address; otherwise 0.
size_t loads_between(const uint8_t* text, size_t call) {
  if (call >= kMove + 4 && text[call - 4] == 0x8b && (text[call - 3] & 0xc7U) == 0x44 && text[call - 2] == 0x24)
    return 4;                                                                           // mov d(%rsp), %reg
  if (call >= kMove + 3 && text[call - 3] == 0x44 && text[call - 2] == 0x89) return 3;  // mov %r8d.., %reg
  return 0;
}

bool with_move(const uint8_t* text, size_t size, size_t call, Site* site) {
  for (const size_t between : {size_t{0}, loads_between(text, call)}) {
    if (call < kMove + between) continue;
    const size_t begin = call - between - kMove;
    if (text[begin] != 0xb8 || text[begin + 3] != 0 || text[begin + 4] != 0) continue;
    if (jumped_to(text, size, call)) return false;
    *site = {begin, call, call + kCall, true};
    return true;
  }
  return false;
}

bool with_comparison(const uint8_t* text, size_t size, size_t call, Site* site) {
  const size_t behind = comparison(text + call + kCall, size - call - kCall);
  if (behind == 0 || jumped_to(text, size, call + kCall)) return false;
  *site = {call, call, call + kCall + behind, false};
  return true;
}

/// The next system call from `from` on, or `size`. Programs wait for this when they start, so it compares 16 bytes at a
/// time.
size_t next_call(const uint8_t* text, size_t size, size_t from) {
  const __m128i first = _mm_set1_epi8(0x0f);
  const __m128i second = _mm_set1_epi8(0x05);
  constexpr size_t kStep = sizeof(__m128i);
  for (; from + kStep + 1 <= size; from += kStep) {
    const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + from));
    const __m128i next = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + from + 1));
    const int both = _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(here, first), _mm_cmpeq_epi8(next, second)));
    if (both != 0) return from + static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(both)));
  }
  while (from + kCall <= size && !is_call(text + from)) ++from;
  return from + kCall <= size ? from : size;
}

struct Writer {
  uint8_t* out;
  size_t size = 0;
  void bytes(const void* from, size_t count) {
    memcpy(out + size, from, count);
    size += count;
  }
  void code(const char* text, size_t count) { bytes(text, count); }
  void jump(uint64_t address) {  // jmp *0(%rip); address
    code("\xff\x25\0\0\0\0", 6);
    bytes(&address, sizeof address);
  }
};

}  // namespace

bool next_site(const uint8_t* text, size_t size, size_t* from, Site* site, int* skipped) {
  for (;;) {
    const size_t call = next_call(text, size, *from);
    if (call == size) break;
    *from = call + 1;
    if (with_move(text, size, call, site) || with_comparison(text, size, call, site)) {
      *from = site->end;
      return true;
    }
    ++*skipped;
  }
  *from = size;
  return false;
}

size_t write_stub(uint8_t* stub, const uint8_t* text, uint64_t text_address, const Site& site, uint64_t enter) {
  Writer w{stub};
  w.bytes(text + site.begin, site.syscall_at - site.begin);
  w.code("\x48\x8d\x64\x24\x80", 5);  // lea -128(%rsp), %rsp: leaf functions keep data below the stack pointer
  w.code("\x49\xbb", 2);              // movabs $enter, %r11
  w.bytes(&enter, sizeof enter);
  w.code("\x41\xff\xd3", 3);                      // call *%r11
  w.code("\x48\x8d\xa4\x24\x80\x00\x00\x00", 8);  // lea 128(%rsp), %rsp
  if (site.call_stays) {
    // The call is made at its own place, so that code that unwinds the stack from there (pthread_cancel) finds the
    // frame that the compiler described.
    w.code("\xe3\x0e", 2);  // jrcxz over the next jump
    w.jump(text_address + site.syscall_at);
  } else {
    w.code("\xe3\x02", 2);  // jrcxz over the call
    w.code("\x0f\x05", 2);
    w.bytes(text + site.syscall_at + kCall, site.end - site.syscall_at - kCall);
  }
  w.jump(text_address + site.end);
  return w.size;
}

bool write_jump(uint8_t* text, uint64_t text_address, const Site& site, uint64_t stub_address) {
  const int64_t distance =
      static_cast<int64_t>(stub_address) - static_cast<int64_t>(text_address + site.begin + kJumpSize);
  if (distance != static_cast<int32_t>(distance)) return false;
  // Copies byte by byte, without memcpy, because the code being patched may be memcpy itself.
  const auto operand = static_cast<uint32_t>(distance);
  volatile uint8_t* const out = text + site.begin;
  out[0] = 0xe9;
  for (unsigned i = 0; i < 4; ++i) out[1 + i] = static_cast<uint8_t>(operand >> (8 * i));
  const size_t patched = site.call_stays ? site.begin + kJumpSize : site.end;
  for (size_t at = kJumpSize; at < patched - site.begin; ++at) out[at] = 0x90;
  return true;
}

}  // namespace spate::preload
