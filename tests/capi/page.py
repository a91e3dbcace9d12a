#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/c-api.md, compiled with warnings as errors and run. An example may only use what FRAME gives it; what it moved is
compared with what calls of one piece each find. Argument: libspate.so."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import Cluster, check

BLOCK = re.compile(r"^```(c|cpp) (file|part)=(\S+)\n(.*?)^```$", re.M | re.S)
COMPILERS = {"c": ("cc", "-std=c11"), "cpp": ("c++", "-std=c++20")}
PARTS = ("partition", "box", "shaped", "list", "started", "cpp", "tell", "told")

# The code before an example, and the code after it.
FRAME = {
    "partition": ("static char buffer[1 << 20]; const uint64_t rank = 1;", """
  if (buffer[0] != at(2048ull * 2048 + 512) || buffer[(1 << 20) - 1] != at(2048ull * 4095 + 1023)) return 1;
  return at_file(file, 64 * 1024 * 3 + 2048 * 5 + 512) != buffer[(3 * 8 + 5) * 512];"""),
    "box": ("static char front[96000], back[96000]; fill(front, 96000, 1); fill(back, 96000, 2);", """
  if (at_file(file, ((5 * 200 + 6) * 300 + 7) * 8) != front[0]) return 1;
  return at_file(file, ((24ull * 200 + 35) * 300 + 46) * 8 + 7) != back[95999];"""),
    "shaped": ("static double array[22 * 32 * 42]; fill((char *)array, sizeof array, 3);", """
  const char *last = (char *)&array[(20 * 32 + 30) * 42 + 40];
  return at_file(file, ((24ull * 200 + 35) * 300 + 46) * 8 + 6) != last[6];"""),
    "list": ("static char buffer[400000];", """
  for (uint64_t i = 0; i < MANY; ++i)
    if (buffer[i * 4 + 3] != at(i * i % 999983 * 8 + 3)) return 1;
  return 0;"""),
    "started": ("""enum { part = 1200 }; const uint64_t total = 192000; static char buffer[2][part];
  struct spate_strided box = {.offset = 100, .block_size = 320, .level_count = 2, .levels = {{20, 480000}, {30, 2400}}};""", """
  return at_file(file, 100 + 480000ull * 19 + 2400 * 29 + 319) != (char)(191999 % 113) || at_file(file, 100 + 2400) != (char)(320 % 113);"""),
    "cpp": ("", """
  for (uint64_t i = 0; i < 1000; ++i)
    if (reinterpret_cast<const char *>(&values[i])[5] != at(i * i * 8 + 5)) return 1;
  return 0;"""),
    "tell": ("", "return received == 0;"),
    "told": ("""struct stat known; if (spate_fstat(file, &known) != 0) return 1; received = known.st_ino;""", """
  const int differs = at_file(mine, 12345) != at(12345);
  return spate_close(mine) != 0 || differs;"""),
}

PROGRAM = """
#include <fcntl.h>
#include <spate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
#include <vector>
#endif
static ino_t received;
static inline char at(uint64_t offset) { return (char)(offset * 7 %% 251); }
static inline void fill(char *to, size_t size, int seed) { for (size_t i = 0; i < size; ++i) to[i] = (char)((i + (size_t)seed) %% 127); }
static inline char at_file(spate_file *file, uint64_t offset) { char c = -1; return spate_pread(file, &c, 1, (off_t)offset) == 1 ? c : -1; }
static inline void compute(char *to, uint64_t first) { for (uint64_t i = 0; i < 1200; ++i) to[i] = (char)((first + i) %% 113); }
static inline void broadcast(const void *value, size_t size) { memcpy(&received, value, size); }
static int example(spate_fs *fs, spate_file *file) {
  (void)fs;
  (void)file;
  %s
%s
  %s
}
int main(void) {
  enum { SIZE = 9 << 20 };
  spate_fs *fs;
  spate_file *file;
  char *all = (char *)malloc(SIZE);
  for (uint64_t i = 0; i < SIZE; ++i) all[i] = at(i);
  if (spate_connect(&fs, NULL, NULL) != 0 || spate_open(fs, "/page", O_CREAT | O_RDWR | O_TRUNC, 0644, &file) != 0 ||
      spate_pwrite(file, all, SIZE, 0) != SIZE)
    return 2;
  free(all);
  const int wrong = example(fs, file);
  if (wrong) fprintf(stderr, "%%d: %%s\\n", wrong, spate_last_error());
  spate_close(file);
  return spate_disconnect(fs) != 0 || wrong;
}
"""

library = os.path.abspath(sys.argv[1])
source = os.environ["SPATE_SOURCE"]
with open(source + "/docs/c-api.md") as page:
    blocks = BLOCK.findall(page.read())
check([name for _, kind, name, _ in blocks if kind == "part"] == list(PARTS), "examples of the page: %s" % [name for _, _, name, _ in blocks])
check("results.c" in [name for _, kind, name, _ in blocks if kind == "file"], "the first program of the page")

with Cluster(io=3) as fs:
    fs.up()
    for language, kind, name, text in blocks:
        program = os.path.join(fs.root, name.removesuffix(".c"))
        source_file = program + "." + language
        with open(source_file, "w") as out:
            out.write(text if kind == "file" else PROGRAM % (FRAME[name][0], text, FRAME[name][1]))
        made = subprocess.run([*COMPILERS[language], "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", source_file, "-o", program, "-I" + source + "/src/capi", library,
                               "-Wl,-rpath," + os.path.dirname(library)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(made.returncode == 0, "%s does not compile: %s" % (name, made.stdout))
        done = subprocess.run([program], env=fs.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        check(done.returncode == 0, "%s: exit %d\n%s" % (name, done.returncode, done.stderr))
    check(fs.spate("cat", "spate:/results") == b"42\n", "what results.c wrote")
    fs.fsck()
    fs.spate("down", "-q")
