# SPDX-License-Identifier: Apache-2.0
# CMake configures a project in C++ in the tree, and ninja builds it. The project is a copy of Debian's GoogleTest.
# needs: cmake ninja g++-12
# seconds: 900
[ -f /usr/src/googletest/CMakeLists.txt ] || skip "cmake needs the source of libgtest-dev in /usr/src"
cp -r /usr/src/googletest source
CCACHE_DISABLE=1 cmake -S source -B out -G Ninja -DCMAKE_CXX_COMPILER=g++-12 -DCMAKE_CXX_FLAGS=-O0 -DBUILD_GMOCK=OFF > "$local/said" 2>&1 || { tail "$local/said"; exit 1; }
ninja -j2 -C out > "$local/said" 2>&1 || { tail "$local/said"; exit 1; }
equal "$(ninja -C out | tail -n 1)" "ninja: no work to do."
printf '#include <gtest/gtest.h>\nTEST(A, B) { EXPECT_EQ(1, 1); }\n' > one.cc
g++-12 -o one one.cc -Isource/googletest/include out/lib/libgtest.a out/lib/libgtest_main.a && ./one > "$local/said" && grep -q 'PASSED.*1 test' "$local/said"
touch source/googletest/src/gtest.cc && equal "$(ninja -n -C out | grep -c Building)" 1
cmake --install out --prefix "$work/installed" > "$local/said" && cmp out/lib/libgtest.a installed/lib/libgtest.a
