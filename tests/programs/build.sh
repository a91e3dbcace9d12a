# SPDX-License-Identifier: Apache-2.0
# Builds a project in C in the tree. Debian's zlib is unpacked, configured, made by two jobs, tested by its own tests, and installed
# in the tree. Then a program is built with the installed library.
# needs: make gcc ar tar
# seconds: 900
archive=$(cd "$local" && env -u LD_PRELOAD "$SPATE_SOURCE/tests/programs/fetch-source" zlib) || skip "build needs the source of zlib, which cannot be fetched"
tar xf "$archive" && cd zlib*/
./configure --prefix="$work/installed" > "$local/said"
make -j2 > "$local/said" 2>&1 && make test > "$local/said" 2>&1 || { tail -n 20 "$local/said"; exit 1; }
grep -q 'zlib shared test OK' "$local/said" && make install > "$local/said"
equal "$(make -q all && echo made)" made
touch crc32.c && make > "$local/said" && grep -q crc32.c "$local/said"
cd "$work"
cat > use.c <<'END'
#include <stdio.h>
#include <string.h>
#include <zlib.h>
int main(int argc, char** argv) {
  char text[100] = "";
  gzFile f = gzopen(argv[argc - 1], "wb");
  if (f == NULL || gzputs(f, "some text") != 9 || gzclose(f) != Z_OK) return 1;
  f = gzopen(argv[argc - 1], "rb");
  if (f == NULL || gzgets(f, text, sizeof text) == NULL || gzclose(f) != Z_OK) return 2;
  return strcmp(text, "some text") != 0;
}
END
gcc -o static use.c -Iinstalled/include installed/lib/libz.a && ./static a.gz && equal "$(gzip -dc a.gz)" "some text"
gcc -o shared use.c -Iinstalled/include -Linstalled/lib -lz -Wl,-rpath,"$work/installed/lib" && ./shared b.gz && cmp a.gz b.gz
ldd ./shared | grep -q "$work/installed/lib/libz" || [ "$FRONTEND" = preload ]  # ldd starts the linker, which knows no /spate there
make -C zlib*/ distclean > "$local/said" && [ ! -e "$(echo zlib*/libz.a)" ]
