// SPDX-License-Identifier: Apache-2.0
// libspate-mpi.so: takes the place of the MPI library's functions for files and calls the back that was compiled for
// the program's MPI. It depends on no MPI, so it can be preloaded into any program.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpiio/front/names.h"
#include "mpiio/front/static_mpi.h"

#if !defined(__x86_64__)
#error "the jumps below are written for x86-64"
#endif

namespace {

/// A function that the front provides. `target` is where calls go; at first it is code that finds the right target.
struct Entry {
  void* target;
  const char* name;  // without the prefix MPI_
};

}  // namespace

// Each entry has four parts: MPI_X and PMPI_X, which jump to its target; its first target, which passes the entry to
// spate_mpi_resolve; and the entry, in a section of its own.
#define SPATE_MPI_ENTRY(name)                                     \
  asm(".text\n"                                                   \
      ".balign 16\n"                                              \
      ".globl MPI_" #name ", PMPI_" #name                         \
      "\n"                                                        \
      ".type MPI_" #name                                          \
      ", @function\n"                                             \
      ".type PMPI_" #name                                         \
      ", @function\n"                                             \
      "MPI_" #name                                                \
      ":\n"                                                       \
      "PMPI_" #name                                               \
      ":\n"                                                       \
      "  endbr64\n"                                               \
      "  jmp *.Lentry_" #name                                     \
      "(%rip)\n"                                                  \
      ".size MPI_" #name ", . - MPI_" #name                       \
      "\n"                                                        \
      ".size PMPI_" #name ", . - PMPI_" #name                     \
      "\n"                                                        \
      ".Lfirst_" #name                                            \
      ":\n"                                                       \
      "  endbr64\n"                                               \
      "  leaq .Lentry_" #name                                     \
      "(%rip), %r11\n"                                            \
      "  jmp spate_mpi_first_call\n"                              \
      ".section .rodata\n"                                        \
      ".Lname_" #name ": .asciz \"" #name                         \
      "\"\n"                                                      \
      ".section spate_mpi_entries, \"aw\"\n"                      \
      ".balign 8\n"                                               \
      ".Lentry_" #name ": .quad .Lfirst_" #name ", .Lname_" #name \
      "\n"                                                        \
      ".text\n");
#define SPATE_MPI_BOTH(name) SPATE_MPI_ENTRY(name) SPATE_MPI_ENTRY(name##_c)

// Saves the arguments while the target is looked up. In all functions here they are integers and pointers.
asm(".text\n"
    ".type spate_mpi_first_call, @function\n"
    "spate_mpi_first_call:\n"
    "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n  pushq %r8\n  pushq %r9\n"
    "  subq $8, %rsp\n"
    "  movq %r11, %rdi\n"
    "  call spate_mpi_resolve\n"
    "  addq $8, %rsp\n"
    "  popq %r9\n  popq %r8\n  popq %rcx\n  popq %rdx\n  popq %rsi\n  popq %rdi\n"
    "  jmp *%rax\n"
    ".size spate_mpi_first_call, . - spate_mpi_first_call\n");

SPATE_MPI_NAMES(SPATE_MPI_ENTRY)
SPATE_MPI_STARTS(SPATE_MPI_ENTRY)
SPATE_MPI_LARGE_COUNTS(SPATE_MPI_BOTH)

extern "C" {
__attribute__((visibility("hidden"))) extern Entry __start_spate_mpi_entries[];
__attribute__((visibility("hidden"))) extern Entry __stop_spate_mpi_entries[];
}

namespace {

void complain(const char* first, const char* second = "", const char* third = "") {
  fprintf(stderr, "spate-mpi: %s%s%s\n", first, second, third);
}

/// An MPI library, and the back for it.
struct Mpi {
  const char* soname;
  const char* kind;  // the back is libspate-mpi-KIND.so
};
constexpr Mpi kKnown[] = {{"libmpich.so.12", "mpich"},   // Debian's MPICH
                          {"libmpi.so.12", "mpich"},     // MPICH and libraries with its ABI
                          {"libmpi.so.40", "openmpi"}};  // Open MPI 3 to 5

struct Found {
  char path[4096];
  const Mpi* mpi;
  char unknown[256];  // name of an MPI library for which there is no back
};

int look_at(dl_phdr_info* info, size_t, void* out) {
  auto* const found = static_cast<Found*>(out);
  const char* const slash = strrchr(info->dlpi_name, '/');
  const char* const name = slash == nullptr ? info->dlpi_name : slash + 1;
  for (const Mpi& mpi : kKnown) {
    const size_t size = strlen(mpi.soname);
    if (strncmp(name, mpi.soname, size) == 0 && (name[size] == '\0' || name[size] == '.') &&
        strlen(info->dlpi_name) < sizeof found->path) {
      strcpy(found->path, info->dlpi_name);
      found->mpi = &mpi;
      return 1;
    }
  }
  if ((strncmp(name, "libmpi.so", 9) == 0 || strncmp(name, "libmpich.so", 11) == 0) &&
      strlen(name) < sizeof found->unknown)
    strcpy(found->unknown, name);
  return 0;
}

/// Finds the MPI library that this process has loaded.
Found find_mpi() {
  Found found{};
  dl_iterate_phdr(look_at, &found);
  return found;
}

/// The back for an MPI. Null, after a message: there is none, or it was compiled for another MPI.
void* open_back(const char* kind) {
  char path[4096];
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&open_back), &own) == 0) return nullptr;
  const char* const slash = strrchr(own.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - own.dli_fname) + 1;
  if (snprintf(path, sizeof path, "%.*slibspate-mpi-%s.so", folder, own.dli_fname, kind) >=
      static_cast<int>(sizeof path))
    return nullptr;
  void* const back = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char* const error = back == nullptr ? dlerror() : "";
  if (back == nullptr && strstr(error, "undefined symbol") == nullptr) {
    complain("no file of Spate can be used, MPI's own functions get them: ", error);
    return nullptr;
  }
  const auto* const compiled_for = back == nullptr ? nullptr : static_cast<const char*>(dlsym(back, "spate_mpi_kind"));
  if (compiled_for != nullptr && strcmp(compiled_for, kind) == 0) return back;
  complain("no file of Spate can be used, MPI's own functions get them: not compiled for the program's MPI: ", path);
  if (back != nullptr) dlclose(back);
  return nullptr;
}

/// Sets the target of every entry: the back's function, or MPI's own if the back has none.
void load() {
  const Found found = find_mpi();
  void* mpi = RTLD_NEXT;
  void* back = nullptr;
  if (found.mpi == nullptr) {
    complain("no file of Spate can be used, MPI's own functions get them: the program's MPI library is not known ",
             found.unknown);
  } else {
    // From now on all libraries may use the symbols of the MPI library. The back is not linked with it, because the
    // name of that library differs between systems.
    mpi = dlopen(found.path, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    if (mpi == nullptr) {
      complain(dlerror());
      abort();
    }
    back = open_back(found.mpi->kind);
  }
  using Start = void (*)(void*);
  if (back != nullptr) {
    if (auto* const start = reinterpret_cast<Start>(dlsym(back, "spate_mpi_start"))) start(mpi);
  }
  for (Entry* entry = __start_spate_mpi_entries; entry != __stop_spate_mpi_entries; ++entry) {
    char name[64];
    snprintf(name, sizeof name, "spate_%s", entry->name);
    void* target = back == nullptr ? nullptr : dlsym(back, name);
    snprintf(name, sizeof name, "PMPI_%s", entry->name);
    if (target == nullptr) target = dlsym(mpi, name);
    if (target != nullptr) __atomic_store_n(&entry->target, target, __ATOMIC_RELEASE);
  }
}

/// Warns if another library's functions are called instead of these, because files would then become local files.
__attribute__((constructor)) void check_order() {
  if (find_mpi().path[0] == '\0') {  // the program uses no MPI, or loads it later
    if (program_contains_mpi())
      complain(
          "the program is linked statically with MPI, MPI's own file functions are used and not Spate's: link it with "
          "the shared library");
    return;
  }
  Dl_info first{};
  Dl_info own{};
  // A profiling library before this one would call this name.
  void* const called = dlsym(RTLD_DEFAULT, "PMPI_File_open");
  if (called == nullptr || dladdr(called, &first) == 0 || dladdr(reinterpret_cast<void*>(&open_back), &own) == 0 ||
      first.dli_fbase == own.dli_fbase)
    return;
  complain("the program calls MPI_File_open of ", first.dli_fname,
           ", so no file of Spate can be used: link with -lspate-mpi before MPI, or start it by spate run --mpi");
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) void* spate_mpi_resolve(Entry* entry);
void* spate_mpi_resolve(Entry* entry) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  void* const before = entry->target;
  pthread_once(&once, load);
  void* const target = __atomic_load_n(&entry->target, __ATOMIC_ACQUIRE);
  if (target == before && before != nullptr) {
    // Either the entry still has its first target, or another thread has been here since. If the target is still code
    // of this library, neither the back nor MPI has the function.
    Dl_info own{};
    Dl_info other{};
    if (dladdr(target, &other) != 0 && dladdr(reinterpret_cast<void*>(&open_back), &own) != 0 &&
        own.dli_fbase == other.dli_fbase) {
      complain("the MPI library of this program has no MPI_", entry->name);
      abort();
    }
  }
  return target;
}
