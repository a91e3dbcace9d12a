# SPDX-License-Identifier: Apache-2.0
# spate_rocksdb: the RocksDB that all our targets link. It is the static archive where there is one: calls and thread-local
# variables need no indirection then, which saves a third of a small transaction. ThreadSanitizer builds take the shared
# library, since suppressions name a shared library (tests/trove/keyval_tsan.cc).
if(NOT TARGET spate_rocksdb)
  add_library(spate_rocksdb INTERFACE)
  find_library(SPATE_ROCKSDB_ARCHIVE librocksdb.a)
  if(SPATE_ROCKSDB_ARCHIVE AND NOT SPATE_SANITIZE MATCHES "thread")
    set(archive ON)
  endif()
  if(archive)
    target_link_libraries(spate_rocksdb INTERFACE ${SPATE_ROCKSDB_ARCHIVE} gflags snappy z bz2 lz4 zstd ${CMAKE_DL_LIBS})
  else()
    pkg_check_modules(ROCKSDB REQUIRED IMPORTED_TARGET GLOBAL rocksdb)
    target_link_libraries(spate_rocksdb INTERFACE PkgConfig::ROCKSDB)
  endif()
endif()
