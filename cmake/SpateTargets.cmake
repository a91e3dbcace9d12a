# SPDX-License-Identifier: Apache-2.0
# spate_library: one static library a folder of src/, linked downwards only. spate_test: one gtest binary.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(GTest)

# The presets compile several files of a target as one (CMAKE_UNITY_BUILD), which halves the time from a bare checkout. Not
# these, whose files use the same short names in their anonymous namespaces. `scripts/test-long separate` compiles every file
# by itself, which shows a missing #include.
set(SPATE_SEPARATE spate_golden)
function(spate_unity target)
  if(target IN_LIST SPATE_SEPARATE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# spate_library(<folder with _ for /> [SOURCES ...] [DEPS spate folders ...] [LIBS foreign libraries ...])
# Without SOURCES: every .cc of the folder that is not a test, fuzzer or bench.
function(spate_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS *.cc)
    list(FILTER ARG_SOURCES EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  endif()
  list(TRANSFORM ARG_DEPS PREPEND spate_)
  if(ARG_SOURCES)
    add_library(spate_${name} STATIC ${ARG_SOURCES})
    target_include_directories(spate_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(spate_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_LIBS} Threads::Threads)
    spate_unity(spate_${name})
  else()
    add_library(spate_${name} INTERFACE)
    target_include_directories(spate_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(spate_${name} INTERFACE ${ARG_DEPS} ${ARG_LIBS} Threads::Threads)
  endif()
endfunction()

# What scripts/test selects by: unit or tests, the folder, and each module (src/bmi/tcp: unit bmi bmi_tcp).
function(spate_labels name)
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" ";" parts ${path})
  list(POP_FRONT parts top)
  string(REPLACE "src" "unit" top ${top})
  set(labels ${top} ${ARGN})
  set(joined "")
  foreach(part ${parts})
    string(APPEND joined "_" ${part})
    string(REGEX REPLACE "^_" "" label ${joined})
    list(APPEND labels ${label})
  endforeach()
  set_property(TEST ${name} APPEND PROPERTY LABELS ${labels})
endfunction()

# spate_test(<name> [SOURCES ...] DEPS spate folders ... [LIBS ...] [LABELS ...] [SERIAL]): a GoogleTest binary, without
# SOURCES of every *_test.cc of the folder. SERIAL: nothing else runs beside it. Label tsan: also run under TSan. OPTIMIZED: the
# tests' own files at -O2, too, since they compute much; of the others that would be half of the time that the whole takes to
# compile.
function(spate_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "SERIAL;OPTIMIZED" "" "SOURCES;DEPS;LIBS;LABELS" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS *_test.cc)
  endif()
  if(NOT ARG_SOURCES)
    message(WARNING "${name}: no *_test.cc in ${CMAKE_CURRENT_SOURCE_DIR}")
    return()
  endif()
  list(TRANSFORM ARG_DEPS PREPEND spate_)
  add_executable(${name} ${ARG_SOURCES})
  spate_unity(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main Threads::Threads)
  if(NOT ARG_OPTIMIZED)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  spate_labels(${name} gtest ${ARG_LABELS})
  set_tests_properties(${name} PROPERTIES RUN_SERIAL ${ARG_SERIAL})
endfunction()

# spate_script_test(<name> <script> [args...]): an integration test; exit 77 = skipped, its last line says why.
function(spate_script_test name script)
  if(NOT BUILD_TESTING)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
    ENVIRONMENT "SPATE_BIN=${CMAKE_BINARY_DIR}/bin;SPATE_SOURCE=${CMAKE_SOURCE_DIR}")
  spate_labels(${name} integration)
endfunction()

# spate_long_test(<suite> <name> <timeout seconds> <command> [args...]): part of a suite of scripts/test-long; plain ctest
# and scripts/test leave it out. A command that is a target's name becomes its binary.
function(spate_long_test suite name timeout)
  if(NOT BUILD_TESTING)
    return()
  endif()
  add_test(NAME ${name} CONFIGURATIONS long COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} SKIP_RETURN_CODE 77 LABELS "long;long_${suite}"
    ENVIRONMENT "SPATE_BIN=${CMAKE_BINARY_DIR}/bin;SPATE_SOURCE=${CMAKE_SOURCE_DIR}")
endfunction()

# spate_fuzz(<x_fuzz> DEPS spate folders ...): the fuzzer of x_fuzz.cc. With SPATE_FUZZ a libFuzzer binary, with SPATE_REPLAY
# one that only replays its inputs, for other compilers. Either way the corpus, tests/fuzz/corpus/<x>, is replayed as a test.
function(spate_fuzz name)
  if(NOT BUILD_TESTING OR NOT (SPATE_FUZZ OR SPATE_REPLAY))
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND spate_)
  string(REGEX REPLACE "_fuzz$" "" corpus ${name})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${corpus})
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS})
  if(SPATE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=0 ${corpus})
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.cc)
    add_test(NAME ${name} COMMAND ${name} ${corpus})
  endif()
  spate_labels(${name} fuzz)
endfunction()
