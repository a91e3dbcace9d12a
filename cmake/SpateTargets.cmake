# SPDX-License-Identifier: Apache-2.0
# spate_library: one static library a folder of src/, linked downwards only. spate_test: one gtest binary.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(GTest)

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
  else()
    add_library(spate_${name} INTERFACE)
    target_include_directories(spate_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(spate_${name} INTERFACE ${ARG_DEPS} ${ARG_LIBS} Threads::Threads)
  endif()
endfunction()

# spate_test(<name> [SOURCES ...] DEPS spate folders ... [LIBS ...]): without SOURCES every *_test.cc of the folder.
function(spate_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS *_test.cc)
  endif()
  list(TRANSFORM ARG_DEPS PREPEND spate_)
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main Threads::Threads)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# spate_script_test(<name> <script> [args...]): an integration test; exit 77 = skipped.
function(spate_script_test name script)
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
    ENVIRONMENT "SPATE_BIN=${CMAKE_BINARY_DIR}/bin;SPATE_SOURCE=${CMAKE_SOURCE_DIR}" LABELS integration)
endfunction()
