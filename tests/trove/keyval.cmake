# SPDX-License-Identifier: Apache-2.0
if(TARGET spate_trove_rocksdb AND TARGET spate_trove_kvsim)
  add_executable(keyval_commit_child keyval_commit_child.cc)
  target_link_libraries(keyval_commit_child PRIVATE spate_trove_rocksdb)
  spate_test(keyval_conformance_test
    SOURCES keyval_backends.cc keyval_fixture.cc keyval_conformance_test.cc keyval_isolation_test.cc
      keyval_serial_test.cc keyval_kill_test.cc keyval_tsan.cc
    DEPS trove_rocksdb trove_kvsim trove_kvmem trove_kvfault trove base
    LABELS tsan OPTIMIZED)
  set_tests_properties(keyval_conformance_test PROPERTIES TIMEOUT 600)  # ThreadSanitizer is ten times slower
  target_include_directories(keyval_conformance_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(keyval_conformance_test PRIVATE
    SPATE_TEST_COMMIT_CHILD="$<TARGET_FILE:keyval_commit_child>")
  add_dependencies(keyval_conformance_test keyval_commit_child)
endif()
