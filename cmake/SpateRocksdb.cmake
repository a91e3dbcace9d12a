# SPDX-License-Identifier: Apache-2.0
# spate_rocksdb: RocksDB as everything of ours links it. From its archive where there is one: its own calls and thread-local
# variables need no detour then, which saves a third of a small transaction. Not under ThreadSanitizer: what it is to
# leave alone it knows by the name of a shared library (tests/trove/keyval_tsan.cc).
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
