// SPDX-License-Identifier: Apache-2.0
// Finds the places where a library makes system calls, and turns each into a jump. Pure; x86-64.
//
// Programs call the C library, and the C library calls itself (stdio, directory streams, glob, realpath ...) without
// names that another library could take over. Only the system call itself is a place through which all calls pass.
// glibc writes it in two forms, both of which have room for the five bytes of a jump:
//     b8 NN NN NN NN  0f 05               mov $number, %eax; syscall
//     0f 05  48 3d NN NN NN NN            syscall; cmp $-4095, %rax
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace spate::preload {

constexpr size_t kJumpSize = 5;  // e9 and a distance

/// One place, as offsets into the text that was searched.
struct Site {
  size_t begin;       // first byte that the jump overwrites
  size_t syscall_at;  // where the two bytes 0f 05 are
  size_t end;         // end of the overwritten bytes, or of the system call if that is later
  bool call_stays;    // the system call itself is not overwritten, so the kernel can be called there
};

/// Finds the next place in text[0 .. size), from `from` on. False: there is none. `skipped` counts places of unknown
/// form.
bool next_site(const uint8_t* text, size_t size, size_t* from, Site* site, int* skipped);

constexpr size_t kStubSize = 96;

/// Writes the code that the jump of `site` leads to: it calls `enter` as a system call would be made, then continues
/// after the place. `text` runs at address `text_address`. Returns the size of the code, at most kStubSize.
size_t write_stub(uint8_t* stub, const uint8_t* text, uint64_t text_address, const Site& site, uint64_t enter);

/// Writes the jump over the place. False: `stub_address` is not within 2 GiB, and nothing was written.
bool write_jump(uint8_t* text, uint64_t text_address, const Site& site, uint64_t stub_address);

}  // namespace spate::preload
