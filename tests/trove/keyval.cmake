# SPDX-License-Identifier: Apache-2.0
if(TARGET spate_trove_rocksdb AND TARGET spate_trove_kvsim)
  spate_test(keyval_conformance_test
    SOURCES keyval_backends.cc keyval_fixture.cc keyval_conformance_test.cc keyval_serial_test.cc
    DEPS trove_rocksdb trove_kvsim trove_kvmem trove_kvfault trove base)
  target_include_directories(keyval_conformance_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
endif()
