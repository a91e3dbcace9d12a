// SPDX-License-Identifier: Apache-2.0
// Looks for a library, with the dynamic linker's lock held: with LD_LIBRARY_PATH=. and a working directory in Spate
// this is the process's first use of Spate.
#include <dlfcn.h>

int main() { return ::dlopen("libspate-is-not-there.so", RTLD_NOW) == nullptr ? 0 : 1; }
