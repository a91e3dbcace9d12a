# SPDX-License-Identifier: Apache-2.0
# Compiler flags, sanitizers and tools, for every target.
set(SPATE_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread; empty for none")
option(SPATE_BENCH "Build the micro-benchmarks (needs Google Benchmark)" OFF)
option(SPATE_FUZZ "Build the libFuzzer targets (clang only)" OFF)
option(SPATE_REPLAY "Build the fuzzers as tests that only replay their corpus (any compiler)" OFF)
# They cost a fifth of the time to compile; names of functions are in the programs all the same.
option(SPATE_LINES "Line numbers in profiles, core dumps and reports of sanitizers" OFF)

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -fno-omit-frame-pointer")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # Its coroutine faults are made before it optimizes: a third less to compile.
  string(REPLACE "-O1" "-O0" CMAKE_CXX_FLAGS_SANITIZE "${CMAKE_CXX_FLAGS_SANITIZE}")
endif()
if(SPATE_LINES)
  add_compile_options(-g1)
endif()
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror -Werror=unused-result)
# Names of files in programs do not depend on where they were built: nothing of the builder's machine is in them, and another
# clone finds what ccache has.
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
  # Its checks are calls, not code in line: a fifth less to compile; tests wait more than they compute.
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_compile_options("SHELL:-mllvm -asan-instrumentation-with-call-threshold=0")
  else()
    add_compile_options("SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
endif()
if(SPATE_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # Checks make each function large: with fewer of them inlined, a fifth (address) to a quarter (thread) less to compile.
  add_compile_options("SHELL:-mllvm -inline-threshold=20")
endif()
if(SPATE_FUZZ)
  # What AddressSanitizer sees as well is not checked twice: a fifth less to compile. Nor is the alignment of each pointer, a
  # sixth more: decoders take foreign bytes one by one (base/codec.h), and the preset clang-asan checks it.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize=null,vptr,object-size,pointer-overflow,alignment)
endif()

find_program(SPATE_CCACHE ccache)
if(SPATE_CCACHE)
  # Paths below the source tree count as relative ones and the build folder's name does not count, so that
  # one build folder, and one clone, finds what another has compiled. What a file depends on is asked of the compiler, which
  # writes it down for Ninja anyway, instead of running the preprocessor once more for each file that is not in the cache.
  set(SPATE_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
    ${SPATE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SPATE_LAUNCHER})
  set(CMAKE_C_COMPILER_LAUNCHER ${SPATE_LAUNCHER})
endif()
find_program(SPATE_MOLD mold)
if(SPATE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
