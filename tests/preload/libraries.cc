// SPDX-License-Identifier: Apache-2.0
// Looks for a library while the dynamic linker holds its lock. With LD_LIBRARY_PATH=. and a working directory in Spate,
// this is the first use of Spate in the process.
#include <dlfcn.h>

int main() { return ::dlopen("libspate-is-not-there.so", RTLD_NOW) == nullptr ? 0 : 1; }
