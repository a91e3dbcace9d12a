# SPDX-License-Identifier: Apache-2.0
# Compiler flags, sanitizers and tools, for every target.
set(SPATE_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread; empty for none")
option(SPATE_BENCH "Build the micro-benchmarks (needs Google Benchmark)" OFF)
option(SPATE_FUZZ "Build the libFuzzer targets (clang only)" OFF)
option(SPATE_REPLAY "Build the fuzzers as tests that only replay their corpus (any compiler)" OFF)
# Debug information costs a fifth of the compile time. The programs have the names of functions without it, too.
option(SPATE_LINES "Line numbers in profiles, core dumps and reports of sanitizers" OFF)

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -fno-omit-frame-pointer")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # This compiler makes its coroutine errors before it optimizes, and without optimization it takes a third less time.
  string(REPLACE "-O1" "-O0" CMAKE_CXX_FLAGS_SANITIZE "${CMAKE_CXX_FLAGS_SANITIZE}")
endif()
if(SPATE_LINES)
  add_compile_options(-g1)
endif()
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror -Werror=unused-result)
# File names in programs do not depend on the folder of the build. So programs tell nothing about the builder's machine, and
# ccache serves all clones.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wthread-safety)
else()
  # g++ 12 warns of its own coroutine frames, of std::variant members that are set on every path, and of the else inside
  # GoogleTest's macros after an if.
  add_compile_options(-Wno-maybe-uninitialized -Wno-shadow -Wno-dangling-else -Wno-subobject-linkage)
endif()
if(SPATE_SANITIZE)
  add_compile_options(-fsanitize=${SPATE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SPATE_SANITIZE})
endif()
if(SPATE_SANITIZE MATCHES address)
  # Makes the sanitizer's checks calls instead of inline code: a fifth less compile time. Tests wait more than they compute.
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_compile_options("SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
  else()
    add_compile_options("SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
endif()
if(SPATE_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # The checks make each function large. Less inlining saves a fifth (address) to a quarter (thread) of the compile time.
  add_compile_options("SHELL:-mllvm -inline-threshold=20")
endif()
if(SPATE_FUZZ)
  # Checks that AddressSanitizer makes as well are off: a fifth less compile time. The alignment check is off, too (another
  # sixth): decoders read foreign bytes one by one (base/codec.h), and the preset clang-asan checks alignment.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize=null,vptr,object-size,pointer-overflow,alignment)
endif()

find_program(SPATE_CCACHE ccache)
if(SPATE_CCACHE)
  # Paths below the source tree count as relative ones and the build folder's name does not count, so that
  # build folders and clones share compiled objects. ccache takes the dependencies of a file from the compiler, which
  # writes them for Ninja anyway, instead of running the preprocessor once more for each file that is not in the cache.
  set(SPATE_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
    ${SPATE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SPATE_LAUNCHER})
  set(CMAKE_C_COMPILER_LAUNCHER ${SPATE_LAUNCHER})
endif()
find_program(SPATE_MOLD mold)
if(SPATE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
