// SPDX-License-Identifier: Apache-2.0
#include "tools/elf.h"

#include <elf.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace spate::tools {
namespace {

constexpr std::size_t kLongestString = 4096;
constexpr std::uint64_t kMostEntries = 1'000'000;

Error wrong(const char* what) { return Error(Errc::kInvalidArgument, what); }

/// Calls about memory, threads, signals and time, which never concern files.
bool never_of_files(unsigned number) {
  switch (number) {
    case SYS_brk:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_mprotect:
    case SYS_madvise:
    case SYS_futex:
    case SYS_sched_yield:
    case SYS_getpid:
    case SYS_gettid:
    case SYS_tgkill:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigreturn:
    case SYS_nanosleep:
    case SYS_clock_gettime:
    case SYS_clock_nanosleep:
    case SYS_getcpu:
    case SYS_membarrier:
    case SYS_getrandom:
    case SYS_arch_prctl: return true;
    default: return false;
  }
}

class Reader {
 public:
  explicit Reader(ByteView file) : file_(file) {}

  Result<Binary> read() {
    SPATE_TRY(std::ignore, read_header());
    SPATE_TRY(std::ignore, read_segments());
    SPATE_TRY(std::ignore, read_dynamic());
    SPATE_TRY(std::ignore, read_sections());
    return std::move(binary_);
  }

 private:
  /// The struct at `offset`; nothing if it does not lie in the file.
  template <typename T>
  std::optional<T> at(std::uint64_t offset) const {
    if (offset > file_.size() || file_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, file_.data() + offset, sizeof value);
    return value;
  }

  std::optional<std::string> string_at(std::uint64_t table, std::uint64_t offset) const {
    if (table > file_.size() || offset >= file_.size() - table) return std::nullopt;
    const auto* const begin = reinterpret_cast<const char*>(file_.data() + table + offset);
    const std::size_t room = std::min<std::size_t>(kLongestString, file_.size() - table - offset);
    const std::size_t size = ::strnlen(begin, room);
    if (size == room) return std::nullopt;
    return std::string(begin, size);
  }

  Result<void> read_header() {
    const auto header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return wrong("no ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != EM_X86_64) {
      return wrong("not for x86-64");
    }
    if (header->e_type != ET_EXEC && header->e_type != ET_DYN) return wrong("neither a program nor a shared library");
    header_ = *header;
    return {};
  }

  Result<void> read_segments() {
    for (std::uint64_t i = 0; i < header_.e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr));
      if (!segment) return wrong("its program headers lie outside of the file");
      if (segment->p_type == PT_INTERP) binary_.dynamic = true;
      if (segment->p_type == PT_DYNAMIC) dynamic_ = *segment;
      if (segment->p_type != PT_LOAD) continue;
      loads_.push_back(*segment);
      if ((segment->p_flags & PF_X) != 0) count_calls(*segment);
    }
    return {};
  }

  /// Counts "mov $number, %eax; syscall".
  void count_calls(const Elf64_Phdr& segment) {
    if (segment.p_offset > file_.size()) return;
    const auto text =
        file_.subspan(segment.p_offset, std::min<std::uint64_t>(segment.p_filesz, file_.size() - segment.p_offset));
    const auto byte = [&](std::size_t i) { return std::to_integer<unsigned>(text[i]); };
    for (std::size_t i = 5; i + 1 < text.size(); ++i) {
      if (byte(i) != 0x0f || byte(i + 1) != 0x05 || byte(i - 5) != 0xb8 || byte(i - 3) >= 2 || byte(i - 2) != 0 ||
          byte(i - 1) != 0)
        continue;
      if (!never_of_files(byte(i - 4) + 256 * byte(i - 3))) ++binary_.own_calls;
    }
  }

  std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& load : loads_) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz)
        return load.p_offset + (address - load.p_vaddr);
    }
    return std::nullopt;
  }

  Result<void> read_dynamic() {
    if (!dynamic_) return {};
    std::optional<std::uint64_t> strings;
    std::vector<std::pair<bool, std::uint64_t>> names;  // true: name of a library; false: a search path
    for (std::uint64_t i = 0; i < std::min(kMostEntries, dynamic_->p_filesz / sizeof(Elf64_Dyn)); ++i) {
      const auto entry = at<Elf64_Dyn>(dynamic_->p_offset + i * sizeof(Elf64_Dyn));
      if (!entry) return wrong("its dynamic section lies outside of the file");
      if (entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_STRTAB) strings = offset_of(entry->d_un.d_ptr);
      if (entry->d_tag == DT_NEEDED) names.emplace_back(true, entry->d_un.d_val);
      if (entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH) names.emplace_back(false, entry->d_un.d_val);
    }
    for (const auto& [library, offset] : names) {
      const auto text = strings ? string_at(*strings, offset) : std::nullopt;
      if (!text) return wrong("a library's name lies outside of the file");
      (library ? binary_.needed : binary_.run_paths).push_back(*text);
    }
    return {};
  }

  Result<void> read_sections() {
    for (std::uint64_t i = 0; i < header_.e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr));
      if (!section) return wrong("its section headers lie outside of the file");
      if (section->sh_type == SHT_DYNSYM) {
        SPATE_TRY(std::ignore, read_symbols(*section));
      }
      if (section->sh_type == SHT_NOTE) look_for_go(*section);
    }
    return {};
  }

  void look_for_go(const Elf64_Shdr& section) {
    const auto note = at<Elf64_Nhdr>(section.sh_offset);
    if (!note || note->n_namesz != 4) return;
    const auto name = string_at(section.sh_offset, sizeof(Elf64_Nhdr));
    if (name && std::string_view(*name).substr(0, 3) == "Go") binary_.go = true;
  }

  Result<void> read_symbols(const Elf64_Shdr& section) {
    const auto strings = at<Elf64_Shdr>(header_.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
    if (section.sh_link >= header_.e_shnum || !strings) return wrong("its symbols have no names");
    std::set<std::string> imports;
    for (std::uint64_t i = 0; i < std::min(kMostEntries, section.sh_size / sizeof(Elf64_Sym)); ++i) {
      const auto symbol = at<Elf64_Sym>(section.sh_offset + i * sizeof(Elf64_Sym));
      if (!symbol) return wrong("its symbols lie outside of the file");
      if (symbol->st_shndx != SHN_UNDEF || symbol->st_name == 0) continue;
      const auto name = string_at(strings->sh_offset, symbol->st_name);
      if (!name) return wrong("a symbol's name lies outside of the file");
      imports.insert(*name);
    }
    binary_.imports.assign(imports.begin(), imports.end());
    return {};
  }

  const ByteView file_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> loads_;
  std::optional<Elf64_Phdr> dynamic_;
  Binary binary_;
};

}  // namespace

Result<Binary> read_binary(ByteView file) { return Reader(file).read(); }

}  // namespace spate::tools
