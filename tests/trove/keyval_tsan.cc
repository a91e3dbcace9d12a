// SPDX-License-Identifier: Apache-2.0
// The system's librocksdb is not built for ThreadSanitizer, which therefore does not see the atomics that order its
// memtable. Its reports from inside that library are meaningless. Our own frames are still checked against each other.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:librocksdb.so\nrace:librocksdb.so\n"; }
#endif
#endif
