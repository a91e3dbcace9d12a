// SPDX-License-Identifier: Apache-2.0
// The handles of libspate, shared by the Python objects that use them. A handle is freed when its last user is gone.
// Users are counted under Python's global lock, so no call runs on a handle that another thread has freed.
#pragma once

#include <spate.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/call.h"

namespace spate::python {

/// A session with a file system. It ends after its last open file. The destructor waits for the servers, without
/// Python's lock. Any thread may use it.
class Connection {
 public:
  Connection(const char* where, const spate_options& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  /// Throws RuntimeError in a process that was forked from the one that connected.
  [[nodiscard]] spate_fs* handle() const;
  [[nodiscard]] bool is_of_this_process() const;

 private:
  spate_fs* handle_ = nullptr;
  pid_t process_;
};

/// An open file. Any thread may use it. The destructor closes the file, unless close() has closed it, and waits for the
/// servers, without Python's lock.
class OpenedFile {
 public:
  /// Takes over `handle`.
  OpenedFile(std::shared_ptr<Connection> connection, spate_file* handle)
      : connection_(std::move(connection)), handle_(handle) {}
  ~OpenedFile();
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  /// Throws RuntimeError in a forked process.
  [[nodiscard]] spate_file* handle() const;
  [[nodiscard]] const std::shared_ptr<Connection>& connection() const { return connection_; }
  [[nodiscard]] bool is_of_this_process() const { return connection_->is_of_this_process(); }
  /// Ends the open. Only the last user may call it, and destroys this object next. Throws OSError.
  void close();

 private:
  std::shared_ptr<Connection> connection_;
  spate_file* handle_;
};

/// A read or write that was started. Two threads cannot use it at once: the second gets an error. The destructor waits
/// until the servers no longer use the memory.
class Operation {
 public:
  using Start = int (*)(spate_file*, void*, std::size_t, off_t, spate_op**);
  Operation(std::shared_ptr<OpenedFile> file, Memory memory, off_t offset, Start start);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  /// Returns the number of bytes moved. After the end of the operation it returns the same again. Throws OSError.
  ssize_t wait();
  bool done();

 private:
  spate_op* take();
  void end(ssize_t result);
  std::shared_ptr<OpenedFile> file_;
  std::optional<Memory> memory_;  // set until the operation has ended
  spate_op* op_ = nullptr;        // null: it has ended, or a thread waits for it
  std::optional<ssize_t> result_;
  std::string sentence_;  // message of a failure
};

/// Fields of struct stat as os.stat_result.
py::object stat_result(const struct stat& st);

void bind_file_system(py::module_& module);
void bind_file(py::module_& module);
void bind_operation(py::module_& module);

/// The Python class File: an open file or directory.
class File {
 public:
  explicit File(std::shared_ptr<OpenedFile> opened) : opened_(std::move(opened)) {}
  /// Throws ValueError after the file was closed. The file stays open while somebody has the result.
  [[nodiscard]] std::shared_ptr<OpenedFile> opened() const;
  [[nodiscard]] bool closed() const { return opened_ == nullptr; }
  /// Throws OSError EBUSY, and leaves the file open, while calls of other threads or started operations use it. In a
  /// forked process this only forgets the file, because it belongs to the parent.
  void close();

 private:
  std::shared_ptr<OpenedFile> opened_;
};

}  // namespace spate::python
