// SPDX-License-Identifier: Apache-2.0
#include "python/handles.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace spate::python {
namespace {

[[noreturn]] void refuse_fork() {
  PyErr_SetString(PyExc_RuntimeError,
                  "this process was forked from the one that connected: connect again in this process");
  throw py::error_already_set();
}

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

Connection::Connection(const char* where, const spate_options& options) : process_(::getpid()) {
  call([&] { return spate_connect(&handle_, where, &options); });
}

Connection::~Connection() {
  // A forked child has a copy of the memory and none of the threads; the session is its parent's.
  if (handle_ == nullptr || !is_of_this_process()) return;
  const py::gil_scoped_release released;
  spate_disconnect(handle_);
}

bool Connection::is_of_this_process() const { return ::getpid() == process_; }

spate_fs* Connection::handle() const {
  if (!is_of_this_process()) refuse_fork();
  return handle_;
}

OpenedFile::~OpenedFile() {
  if (handle_ == nullptr || !is_of_this_process()) return;
  const py::gil_scoped_release released;
  spate_close(handle_);
}

spate_file* OpenedFile::handle() const {
  if (!connection_->is_of_this_process()) refuse_fork();
  return handle_;
}

void OpenedFile::close() {
  spate_file* const mine = std::exchange(handle_, nullptr);
  if (is_of_this_process()) call([&] { return spate_close(mine); });
}

std::shared_ptr<OpenedFile> File::opened() const {
  if (closed()) throw py::value_error("the file is closed");
  return opened_;
}

void File::close() {
  if (closed()) return;
  if (opened_.use_count() > 1 && opened_->is_of_this_process())
    raise_error(EBUSY, "calls or started operations on the file are under way");
  const std::shared_ptr<OpenedFile> last = std::move(opened_);
  if (last.use_count() == 1) last->close();
}

Operation::Operation(std::shared_ptr<OpenedFile> file, Memory memory, off_t offset, Start start)
    : file_(std::move(file)), memory_(std::move(memory)) {
  spate_file* const handle = file_->handle();
  call([&] { return start(handle, memory_->data(), memory_->size(), offset, &op_); });
}

// The servers write into the memory, so it must not be freed before they have ended.
Operation::~Operation() {
  if (op_ == nullptr || !file_->is_of_this_process()) return;
  const py::gil_scoped_release released;
  spate_wait(op_);
}

spate_op* Operation::take() {
  if (op_ != nullptr) static_cast<void>(file_->handle());  // throws in a forked process
  if (op_ == nullptr) throw py::value_error("another thread waits for this operation");
  return std::exchange(op_, nullptr);
}

void Operation::end(ssize_t result) {
  if (result < 0) sentence_ = spate_last_error();
  result_ = result;
  memory_.reset();
  file_.reset();
}

ssize_t Operation::wait() {
  if (!result_.has_value()) {
    spate_op* const op = take();
    ssize_t result = 0;
    {
      const py::gil_scoped_release released;
      result = spate_wait(op);
    }
    end(result);
  }
  if (*result_ < 0) raise_error(static_cast<int>(-*result_), sentence_.c_str());
  return *result_;
}

bool Operation::done() {
  if (result_.has_value()) return true;
  spate_op* const op = take();
  ssize_t result = 0;
  int ended = 0;
  {
    const py::gil_scoped_release released;
    ended = spate_test(op, &result);
  }
  if (ended == 1) {
    end(result);
  } else {
    op_ = op;
  }
  return ended == 1;
}

void bind_operation(py::module_& module) {
  py::class_<Operation>(module, "Operation",
                        "A read or write that was started; its buffer is in use until it has ended.")
      .def("wait", &Operation::wait, "Waits for its end and returns how many bytes were moved.")
      .def("done", &Operation::done, "Whether it has ended. Also drives it on, without waiting.");
}

py::object stat_result(const struct stat& st) {
  const py::tuple fields = py::make_tuple(st.st_mode, st.st_ino, st.st_dev, st.st_nlink, st.st_uid, st.st_gid,
                                          st.st_size, st.st_atim.tv_sec, st.st_mtim.tv_sec, st.st_ctim.tv_sec);
  using py::literals::operator""_a;
  const py::dict more("st_atime"_a = seconds(st.st_atim), "st_mtime"_a = seconds(st.st_mtim),
                      "st_ctime"_a = seconds(st.st_ctim), "st_atime_ns"_a = nanoseconds(st.st_atim),
                      "st_mtime_ns"_a = nanoseconds(st.st_mtim), "st_ctime_ns"_a = nanoseconds(st.st_ctim),
                      "st_blksize"_a = st.st_blksize, "st_blocks"_a = st.st_blocks, "st_rdev"_a = st.st_rdev);
  return py::module_::import("os").attr("stat_result")(fields, more);
}

}  // namespace spate::python
