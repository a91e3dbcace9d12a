// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/file.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "mpiio/back/file_systems.h"
#include "mpiio/back/mpi.h"
#include "mpiio/back/representation.h"

namespace spate::mpiio {
namespace {

std::shared_mutex files_mutex;
std::unordered_map<MPI_File, std::unique_ptr<File>>& files() {
  static auto& all = *new std::unordered_map<MPI_File, std::unique_ptr<File>>;
  return all;
}

/// What the ranks make of the name: for all of them it is Spate's, for none, or for some.
enum class NameOwner { kSpate, kOther, kMixed };
NameOwner owner_of_name(MPI_Comm comm, const std::optional<Name>& name, int amode) {
  const std::int64_t hash = name ? hash_of(name->path) : -1;
  std::int64_t own[4] = {hash, -hash, name ? amode : 0, name ? -amode : 0};
  std::int64_t most[4] = {};
  PMPI_Allreduce(own, most, 4, MPI_INT64_T, MPI_MAX, comm);
  if (most[0] == -1) return NameOwner::kOther;
  return most[0] == -most[1] && most[2] == -most[3] ? NameOwner::kSpate : NameOwner::kMixed;
}

Failure check_amode(int amode) {
  const int access = amode & (MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR);
  if (access != MPI_MODE_RDONLY && access != MPI_MODE_WRONLY && access != MPI_MODE_RDWR)
    return {MPI_ERR_AMODE, "spate: exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR is taken"};
  if (access == MPI_MODE_RDONLY && (amode & (MPI_MODE_CREATE | MPI_MODE_EXCL)) != 0)
    return {MPI_ERR_AMODE, "spate: MPI_MODE_RDONLY goes without MPI_MODE_CREATE and MPI_MODE_EXCL"};
  if (access == MPI_MODE_RDWR && (amode & MPI_MODE_SEQUENTIAL) != 0)
    return {MPI_ERR_AMODE, "spate: MPI_MODE_RDWR goes without MPI_MODE_SEQUENTIAL"};
  return {};
}

int flags_of(int amode) {
  if ((amode & MPI_MODE_RDONLY) != 0) return O_RDONLY;
  return (amode & MPI_MODE_WRONLY) != 0 ? O_WRONLY : O_RDWR;
}

/// Rank 0 prints an error in the hints, each message once for a file.
void say(File& file, const std::string& text) {
  if (file.rank == 0 && file.said.insert(text).second)
    std::fprintf(stderr, "spate-mpi: %s: %s\n", file.path.c_str(), text.c_str());
}

/// All ranks take the hints of rank 0.
void broadcast_hints(File& file, const std::vector<std::string>& wrong) {
  for (const std::string& text : wrong) say(file, text);
  PMPI_Bcast(&file.hints, static_cast<int>(sizeof file.hints), MPI_BYTE, 0, file.comm);
}

/// Opens the file on rank 0, which may create it.
Failure open_first(File& file, const Name& name) {
  long outcome = 0;
  if (own_file_system(file, &outcome) == nullptr) return failure_of(outcome, "connect");
  int flags = flags_of(file.amode);
  if ((file.amode & MPI_MODE_CREATE) != 0) flags |= O_CREAT;
  if ((file.amode & MPI_MODE_EXCL) != 0) flags |= O_EXCL;
  spate_layout layout{};
  layout.strip_bytes = file.hints.striping_unit;
  layout.target_count = static_cast<std::uint32_t>(file.hints.striping_factor);
  layout.first_target = static_cast<std::uint32_t>(file.hints.first_target);
  if (file.hints.distribution.front() != 0) layout.distribution = file.hints.distribution.data();
  const long opened = spate_open_layout(file.fs, name.path.c_str(), flags, file.hints.file_perm, &layout, &file.file);
  return failure_of(opened, "open " + name.path);
}

/// Reads the layout of the file, which get_info shows and collective access uses.
Failure read_layout(File& file) {
  spate_layout layout{};
  const long outcome = spate_get_layout(file.file, &layout);
  if (outcome < 0) return failure_of(outcome, "layout of " + file.path);
  file.hints.striping_unit = layout.strip_bytes;
  file.hints.striping_factor = layout.target_count;
  file.hints.first_target = layout.first_target;
  file.hints.distribution.fill(0);  // a text that is too long is shown cut off
  const std::string_view distribution(layout.distribution);
  std::copy_n(distribution.begin(), std::min(distribution.size(), file.hints.distribution.size() - 1),
              file.hints.distribution.begin());
  return {};
}

/// Prints that the layout differs from the hints, because the file existed before, or because there are fewer targets
/// than requested.
void say_other_layout(File& file, const Hints& wanted) {
  const auto compare = [&file](const char* key, std::uint64_t asked, std::uint64_t got) {
    if (asked != 0 && asked != got)
      say(file, std::string("hint ") + key + "=" + std::to_string(asked) + ": the file has " + std::to_string(got));
  };
  if ((file.amode & MPI_MODE_CREATE) == 0) return;
  compare("striping_unit", wanted.striping_unit, file.hints.striping_unit);
  compare("striping_factor", wanted.striping_factor, file.hints.striping_factor);
  compare("start_iodevice", wanted.first_target, file.hints.first_target);
}

/// What rank 0 sends to the others about the file that it has opened.
struct Opened {
  std::int64_t error_class = MPI_SUCCESS;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  Hints hints;
};

Failure open_for_all(File& file, const Name& name) {
  Failure failure;
  Opened opened;
  if (file.rank == 0) {
    failure = open_first(file, name);
    const Hints wanted = file.hints;
    if (!failure.failed()) failure = read_layout(file);
    if (!failure.failed()) say_other_layout(file, wanted);
    struct stat st{};
    if (!failure.failed()) failure = failure_of(spate_fstat(file.file, &st), "attributes of " + name.path);
    opened = {failure.error_class, st.st_ino, static_cast<std::uint64_t>(st.st_size), file.hints};
  }
  PMPI_Bcast(&opened, static_cast<int>(sizeof opened), MPI_BYTE, 0, file.comm);
  file.inode = opened.inode;
  file.hints = opened.hints;
  if ((file.amode & MPI_MODE_APPEND) != 0) file.position = file.start = opened.size;
  if (opened.error_class == MPI_SUCCESS || file.rank == 0) return failure;
  return {static_cast<int>(opened.error_class), "spate: rank 0 could not open " + name.path};
}

/// Chooses the ranks that read and write for all. Without hints these are one rank of each node, and at most as many as
/// there are targets. With hints they are the first rank of each node, then the second of each, and so on. Collective.
void choose_aggregators(File& file) {
  MPI_Comm node = MPI_COMM_NULL;
  PMPI_Comm_split_type(file.comm, MPI_COMM_TYPE_SHARED, file.rank, MPI_INFO_NULL, &node);
  int place = 0;
  PMPI_Comm_rank(node, &place);
  PMPI_Comm_free(&node);
  std::vector<int> places(static_cast<std::size_t>(file.ranks));
  PMPI_Allgather(&place, 1, MPI_INT, places.data(), 1, MPI_INT, file.comm);
  const Hints& hints = file.hints;
  const auto ranks = static_cast<std::uint64_t>(file.ranks);
  std::uint64_t most = hints.cb_nodes;
  if (most == 0) most = hints.cb_per_node > 0 ? ranks : std::max<std::uint64_t>(hints.striping_factor, 1);
  most = std::min(most, ranks);
  const std::uint64_t per_node = hints.cb_per_node > 0 ? hints.cb_per_node : hints.cb_nodes > 0 ? ranks : 1;
  file.aggregators.clear();
  for (std::uint64_t turn = 0; turn < std::min(per_node, ranks); ++turn) {
    for (std::size_t rank = 0; rank < places.size() && file.aggregators.size() < most; ++rank) {
      if (static_cast<std::uint64_t>(places[rank]) == turn) file.aggregators.push_back(static_cast<int>(rank));
    }
  }
  file.hints.cb_nodes = file.aggregators.size();
}

/// Chooses a name beside the file that no other open uses.
void name_pointer_file(File& file) {
  std::uint64_t number = 0;
  if (file.rank == 0) {
    std::random_device random;
    number = (static_cast<std::uint64_t>(random()) << 32U) | random();
  }
  PMPI_Bcast(&number, 1, MPI_UINT64_T, 0, file.comm);
  const std::size_t slash = file.path.rfind('/');
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, "%016llx", static_cast<unsigned long long>(number));
  file.pointer_path = file.path.substr(0, slash + 1) + ".spate-mpi-pointer-" + suffix;
}

/// Makes the communicator for nonblocking collective accesses, if every rank may call MPI in several threads.
void make_own_comm(File& file) {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  const int own = level == MPI_THREAD_MULTIPLE ? 1 : 0;
  int all = 0;
  PMPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, file.comm);
  if (all != 0) PMPI_Comm_dup(file.comm, &file.own_comm);
}

Failure finish_open(File& file) {
  choose_aggregators(file);
  name_pointer_file(file);
  make_own_comm(file);
  file.shadow = make_shadow();
  Failure failure;
  if (file.shadow == MPI_FILE_NULL) failure = {MPI_ERR_OTHER, "spate: MPI gives no handle for the file"};
  return agree(file, failure);
}

void drop(File& file) {
  file.in_turn.reset();
  if (file.own_comm != MPI_COMM_NULL) PMPI_Comm_free(&file.own_comm);
  if (file.pointer_file != nullptr) spate_close(file.pointer_file);
  if (file.file != nullptr) spate_close(file.file);
  if (file.shadow != MPI_FILE_NULL) free_shadow(&file.shadow);
  free_copy(file.view.etype);
  free_copy(file.view.filetype);
  if (file.comm != MPI_COMM_NULL) PMPI_Comm_free(&file.comm);
}

}  // namespace

std::int64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return static_cast<std::int64_t>(hash >> 2U);
}

File* find(MPI_File handle) {
  const std::shared_lock lock(files_mutex);
  const auto found = files().find(handle);
  return found == files().end() ? nullptr : found->second.get();
}

Failure agree(const File& file, const Communicator& communicator, const Failure& own) {
  std::int64_t most[2] = {own.error_class, own.failed() ? -file.rank : -file.ranks};
  communicator.all_reduce(most, MPI_MAX);
  if (own.failed() || most[0] == MPI_SUCCESS) return own;
  return {static_cast<int>(most[0]), "spate: " + file.path + ": failed on rank " + std::to_string(-most[1])};
}

Failure agree(const File& file, const Failure& own) {
  return agree(file, Communicator(file.comm, Communicator::Thread::kProgram), own);
}

void wait_for_none_under_way(File& file) {
  std::unique_lock lock(file.mutex);
  file.none_under_way.wait(lock, [&] { return file.under_way == 0; });
}

bool all_same(MPI_Comm comm, std::int64_t value) {
  const std::int64_t own[2] = {value, -value};
  std::int64_t most[2] = {};
  PMPI_Allreduce(own, most, 2, MPI_INT64_T, MPI_MAX, comm);
  return most[0] == -most[1];
}

void replace_view(View& view, View made) {
  free_copy(view.etype);
  free_copy(view.filetype);
  view = std::move(made);
  view.etype = copy_type(view.etype);
  view.filetype = copy_type(view.filetype);
}

void change_hints(File& file, MPI_Info info) {
  wait_for_none_under_way(file);  // they use the hints
  const Hints before = file.hints;
  for (const auto& [key, value] : echoed_hints(info)) file.echoed[key] = value;
  broadcast_hints(file, read_hints(info, file.hints));
  file.hints.striping_unit = before.striping_unit;
  file.hints.striping_factor = before.striping_factor;
  file.hints.first_target = before.first_target;
  file.hints.distribution = before.distribution;
  if (file.hints.cb_nodes != before.cb_nodes || file.hints.cb_per_node != before.cb_per_node) choose_aggregators(file);
}

Failure open_file(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* handle, bool* ours) {
  const auto place = resolve_here(name);
  const NameOwner who = owner_of_name(comm, place, amode);
  *ours = who != NameOwner::kOther;
  if (!*ours) return {};
  *handle = MPI_FILE_NULL;
  if (who == NameOwner::kMixed) return {MPI_ERR_NOT_SAME, "spate: the ranks give different names or modes to one open"};
  if (Failure failure = check_amode(amode); failure.failed()) return failure;
  auto file = std::make_unique<File>();
  PMPI_Comm_dup(comm, &file->comm);
  PMPI_Comm_rank(file->comm, &file->rank);
  PMPI_Comm_size(file->comm, &file->ranks);
  file->amode = amode;
  file->path = place->path;
  file->view.flat = flat_of(MPI_BYTE);
  file->view.representation = find_representation("native");
  file->echoed = echoed_hints(info);
  std::vector<std::string> wrong;
  if (file->rank == 0) wrong = read_all_hints(info, file->hints);
  broadcast_hints(*file, wrong);
  file->config = place->config;
  Failure failure = open_for_all(*file, *place);
  if (!failure.failed()) failure = finish_open(*file);
  if (failure.failed()) {
    drop(*file);
    return failure;
  }
  *handle = file->shadow;
  const std::unique_lock lock(files_mutex);
  files()[*handle] = std::move(file);
  return {};
}

spate_fs* own_file_system(File& file, long* outcome) {
  const std::lock_guard lock(file.opening);
  if (file.fs == nullptr) file.fs = connect(file.config, outcome);
  return file.fs;
}

long open_own(File& file) {
  long outcome = 0;
  spate_fs* const fs = own_file_system(file, &outcome);
  if (fs == nullptr) return outcome;
  const std::lock_guard lock(file.opening);
  return file.file != nullptr ? 0 : spate_open_inode(fs, file.inode, flags_of(file.amode), &file.file);
}

Failure close_file(MPI_File* handle) {
  std::unique_ptr<File> file;
  {
    const std::unique_lock lock(files_mutex);
    const auto found = files().find(*handle);
    file = std::move(found->second);
    files().erase(found);
  }
  wait_for_none_under_way(*file);
  Failure failure;
  if (file->file != nullptr)
    failure = failure_of(spate_close(std::exchange(file->file, nullptr)), "close " + file->path);
  // Rank 0 removes names after all ranks have closed the file. Here it learns whether any rank used the shared pointer.
  const int used = file->pointer_file != nullptr ? 1 : 0;
  int any_used = 0;
  PMPI_Allreduce(&used, &any_used, 1, MPI_INT, MPI_MAX, file->comm);
  if (file->rank == 0) {
    if (any_used != 0) spate_unlink(file->fs, file->pointer_path.c_str());
    if ((file->amode & MPI_MODE_DELETE_ON_CLOSE) != 0) {
      const Failure gone = failure_of(spate_unlink(file->fs, file->path.c_str()), "delete " + file->path);
      if (!failure.failed()) failure = gone;
    }
  }
  failure = agree(*file, failure);
  *handle = MPI_FILE_NULL;
  if (failure.failed()) raise(file->shadow, failure);
  drop(*file);
  return failure;
}

}  // namespace spate::mpiio
