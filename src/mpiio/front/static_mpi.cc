// SPDX-License-Identifier: Apache-2.0
#include "mpiio/front/static_mpi.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

/// The program's file. Every number in it is checked against the size of the file.
struct Image {
  const char* bytes;
  size_t size;

  template <typename T>
  const T* at(size_t offset, size_t count = 1) const {
    if (offset > size || count > (size - offset) / sizeof(T) || offset % alignof(T) != 0) return nullptr;
    return reinterpret_cast<const T*>(bytes + offset);
  }
};

bool names_mpi(const Image& image, const Elf64_Shdr& table, const Elf64_Shdr& names) {
  constexpr char kFunction[] = "MPI_File_open";
  const size_t count = table.sh_size / sizeof(Elf64_Sym);
  const auto* const symbols = image.at<Elf64_Sym>(table.sh_offset, count);
  const char* const text = image.at<char>(names.sh_offset, names.sh_size);
  if (symbols == nullptr || text == nullptr) return false;
  for (size_t i = 0; i < count; ++i) {
    const Elf64_Sym& symbol = symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name > names.sh_size) continue;
    if (names.sh_size - symbol.st_name < sizeof kFunction) continue;
    if (memcmp(text + symbol.st_name, kFunction, sizeof kFunction) == 0) return true;
  }
  return false;
}

bool contains_mpi(const Image& image) {
  const auto* const header = image.at<Elf64_Ehdr>(0);
  if (header == nullptr || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr)) return false;
  const auto* const sections = image.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  if (sections == nullptr) return false;
  for (size_t i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    if (names_mpi(image, sections[i], sections[sections[i].sh_link])) return true;
  }
  return false;
}

}  // namespace

bool program_contains_mpi() {
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat st{};
  void* image = MAP_FAILED;
  if (fstat(fd, &st) == 0 && st.st_size > 0)
    image = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (image == MAP_FAILED) return false;
  const bool found = contains_mpi({static_cast<const char*>(image), static_cast<size_t>(st.st_size)});
  munmap(image, static_cast<size_t>(st.st_size));
  return found;
}
