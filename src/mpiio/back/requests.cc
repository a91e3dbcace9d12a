// SPDX-License-Identifier: Apache-2.0
// Nonblocking accesses. Threads make them (background.h), and generalized requests of MPI stand for them. MPI lets
// another thread complete such a request only in programs with MPI_THREAD_MULTIPLE. In others the program's own thread
// completes it while it is inside MPI; both MPIs call a hook then, which they have for their own ROMIO. Collective
// accesses are made together with the other ranks only in programs with MPI_THREAD_MULTIPLE, because that takes
// messages between the ranks.
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "mpiio/back/background.h"
#include "mpiio/back/data_call.h"

namespace spate::mpiio {
namespace {

struct Started {
  Started(File& f, const Call& c) : file(&f), handle(f.shadow), call(f, c) {}
  File* const file;  // exists until file->under_way has been decreased
  const MPI_File handle;
  DataCall call;
  MPI_Request request = MPI_REQUEST_NULL;
  std::atomic<bool> moved{false};
  int code = MPI_SUCCESS;
};
using Shared = std::shared_ptr<Started>;  // the request and the thread that makes the access share it

const Shared& shared(void* state) { return *static_cast<Shared*>(state); }

int query(void* state, MPI_Status* status) {
  set_status(status, shared(state)->call.bytes());
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return shared(state)->code;
}
int free_shared(void* state) {
  delete static_cast<Shared*>(state);
  return MPI_SUCCESS;
}
int cancel(void*, int) { return MPI_SUCCESS; }

/// Ends the access, in a thread that may call MPI. If the
/// program has freed the request, the file may be closed by now.
void conclude(Started& started) {
  started.call.finish();
  const Failure& failure = started.call.failure();
  if (!failure.failed()) return;
  started.code = find(started.handle) != nullptr ? raise(started.handle, failure) : code_of(failure);
}

void lower(File& file) {
  const std::lock_guard lock(file.mutex);
  if (--file.under_way == 0) file.none_under_way.notify_all();
}

// MPICH: functions of the request. MPICH calls them while the program tests the request or waits for it.
using Poll = int(void* state, MPI_Status* status);
using Wait = int(int count, void** states, double timeout, MPI_Status* status);
using StartPolled = int(MPI_Grequest_query_function*, MPI_Grequest_free_function*, MPI_Grequest_cancel_function*, Poll*,
                        Wait* wait, void* state, MPI_Request* request);
int poll(void* state, MPI_Status*) {
  const Shared started = shared(state);  // completing the request may free `state`
  if (!started->moved.load(std::memory_order_acquire) || started->request == MPI_REQUEST_NULL) return MPI_SUCCESS;
  MPI_Request request = std::exchange(started->request, MPI_REQUEST_NULL);
  conclude(*started);
  return PMPI_Grequest_complete(request);
}

/// Waits for the accesses, which end without a call of MPI.
int wait(int count, void** states, double, MPI_Status* status) {
  for (int i = 0; i < count; ++i) {
    shared(states[i])->moved.wait(false, std::memory_order_acquire);
    if (const int code = poll(states[i], status); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

// Open MPI: a function that it calls whenever the program is inside MPI.
using RegisterProgress = int(int (*)());
std::mutex ended_mutex;
std::vector<Shared>& ended() {
  static auto& all = *new std::vector<Shared>;
  return all;
}
std::atomic<bool> any_ended{false};
int complete_ended() {
  if (!any_ended.load(std::memory_order_acquire)) return 0;
  std::vector<Shared> all;
  {
    const std::lock_guard lock(ended_mutex);
    all.swap(ended());
    any_ended = false;
  }
  for (const Shared& started : all) {
    conclude(*started);
    PMPI_Grequest_complete(started->request);
  }
  return static_cast<int>(all.size());
}

enum class CompletionMethod { kThread, kPolled, kProgress, kAtOnce };

CompletionMethod choose_method() {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  if (level == MPI_THREAD_MULTIPLE) return CompletionMethod::kThread;
  if (real_symbol("PMPIX_Grequest_start") != nullptr) return CompletionMethod::kPolled;
  auto* const add = real_function<RegisterProgress>("opal_progress_register");
  return add != nullptr && add(complete_ended) == 0 ? CompletionMethod::kProgress : CompletionMethod::kAtOnce;
}

int start_grequest(CompletionMethod method, const Shared& started) {
  auto state = std::make_unique<Shared>(started);
  int code = MPI_SUCCESS;
  if (method == CompletionMethod::kPolled) {
    static auto* const start = real_function<StartPolled>("PMPIX_Grequest_start");
    code = start(query, free_shared, cancel, poll, wait, state.get(), &started->request);
  } else {
    code = PMPI_Grequest_start(query, free_shared, cancel, state.get(), &started->request);
  }
  if (code == MPI_SUCCESS) state.release();
  return code;
}

void move(CompletionMethod method, const Shared& started) {
  started->call.move_alone();
  if (method == CompletionMethod::kThread) conclude(*started);
  started->moved.store(true, std::memory_order_release);
  started->moved.notify_all();
  lower(*started->file);
  if (method == CompletionMethod::kThread) PMPI_Grequest_complete(started->request);
  if (method != CompletionMethod::kProgress) return;
  const std::lock_guard lock(ended_mutex);
  ended().push_back(started);
  any_ended = true;
}

void count_up(File& file) {
  const std::lock_guard lock(file.mutex);
  ++file.under_way;
}

Background& in_turn(File& file) {
  const std::lock_guard lock(file.mutex);
  if (file.in_turn == nullptr) file.in_turn = std::make_unique<Background>(1);
  return *file.in_turn;
}

/// Whether the ranks may make the access in two phases. All ranks find the same.
bool is_made_together(const File& file, const Call& call) {
  const Choice choice = call.write ? file.hints.cb_write : file.hints.cb_read;
  return call.together && file.own_comm != MPI_COMM_NULL && choice != Choice::kDisable && !file.atomic;
}

/// If this rank's arguments are wrong, it takes part, but without a request.
int start_together(File& file, const Call& call, MPI_Request* request) {
  const auto started = std::make_shared<Started>(file, call);
  started->call.prepare();
  const Failure wrong = started->call.failure();
  const int code = wrong.failed() ? MPI_SUCCESS : start_grequest(CompletionMethod::kThread, started);
  *request = started->request;
  count_up(file);
  in_turn(file).run([started] {
    started->call.move_together(Communicator(started->file->own_comm, Communicator::Thread::kLibrary));
    const bool awaited = started->request != MPI_REQUEST_NULL;
    if (awaited) conclude(*started);
    lower(*started->file);
    if (awaited) PMPI_Grequest_complete(started->request);
  });
  return wrong.failed() ? result(file, wrong) : code;
}

}  // namespace

int start_request(File& file, const Call& call, MPI_Request* request) {
  static const CompletionMethod method = choose_method();
  *request = MPI_REQUEST_NULL;
  if (is_made_together(file, call)) return start_together(file, call, request);
  Call alone = call;
  alone.together = false;
  const auto started = std::make_shared<Started>(file, alone);
  started->call.prepare();
  if (started->call.failure().failed()) return result(file, started->call.failure());
  if (const int code = start_grequest(method, started); code != MPI_SUCCESS) return code;
  *request = started->request;
  count_up(file);
  if (method != CompletionMethod::kAtOnce) {
    Background::instance().run([started] { move(method, started); });
    return MPI_SUCCESS;
  }
  move(method, started);
  conclude(*started);
  return PMPI_Grequest_complete(started->request);
}

}  // namespace spate::mpiio
