// SPDX-License-Identifier: Apache-2.0
// How the binding calls libspate: without Python's global lock, and with errors that become OSError.
#pragma once

#include <pybind11/pybind11.h>

#include <limits>
#include <memory>
#include <type_traits>

namespace spate::python {

namespace py = pybind11;

/// Throws OSError (FileNotFoundError, ...) for a negative errno of this thread's last call, with the library's
/// sentence.
[[noreturn]] void raise_error(long negative_errno);
/// Throws OSError for an error that the binding itself has found.
[[noreturn]] void raise_error(int error, const char* sentence);

/// Runs `make()`, a call of libspate, without the global lock. Throws OSError for a negative result.
template <typename Make>
auto call(const Make& make) {
  const auto result = [&make] {
    const py::gil_scoped_release released;
    return make();
  }();
  if (result < 0) raise_error(static_cast<long>(result));
  return result;
}

/// A path or a name: str, bytes or os.PathLike. Names that are not UTF-8 keep their bytes (PEP 383).
class Path {
 public:
  Path() = default;
  explicit Path(py::bytes encoded) : encoded_(std::move(encoded)) {}
  [[nodiscard]] const char* c_str() const { return PyBytes_AS_STRING(encoded_.ptr()); }

 private:
  py::bytes encoded_;
};

/// A whole number of Python that T can hold. Any other is an OverflowError, as in the module os. Nothing is cut.
template <typename T>
class Number {
 public:
  Number() = default;
  constexpr Number(T value) : value_(value) {}     // NOLINT(google-explicit-constructor): the default of an argument
  constexpr operator T() const { return value_; }  // NOLINT(google-explicit-constructor): it is that number

 private:
  T value_{};
};
/// Throws OverflowError for a number outside of `least` to `most`.
long long number_between(const py::handle& whole, long long least, long long most);

/// The name of an object as str.
py::str decoded(const char* name);

/// The memory of an object with the buffer protocol. It can be neither resized nor freed while this object lives. Make
/// and destroy this object with the global lock held.
class Memory {
 public:
  enum class Use { kRead, kWrite };
  /// Throws BufferError or TypeError: no buffer, not contiguous, or read-only although it will be written.
  Memory(const py::handle& object, Use use);
  Memory(Memory&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  Memory& operator=(Memory&&) = delete;
  ~Memory() { PyBuffer_Release(&view_); }
  [[nodiscard]] void* data() const { return view_.buf; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

}  // namespace spate::python

namespace pybind11::detail {
template <>
struct type_caster<spate::python::Path> {
  PYBIND11_TYPE_CASTER(spate::python::Path, const_name("Union[str, bytes, os.PathLike]"));
  bool load(handle source, bool /*convert*/) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(source.ptr(), &encoded) == 0) {
      // A NUL in the text is a wrong value. Anything else, such as a number, is a wrong type.
      if (PyErr_ExceptionMatches(PyExc_ValueError) != 0) throw error_already_set();
      PyErr_Clear();
      return false;
    }
    value = spate::python::Path(reinterpret_steal<bytes>(encoded));
    return true;
  }
};
template <typename T>
struct type_caster<spate::python::Number<T>> {
  static_assert(sizeof(T) < sizeof(long long) || std::is_signed_v<T>);
  PYBIND11_TYPE_CASTER(spate::python::Number<T>, const_name("int"));
  bool load(handle source, bool /*convert*/) {
    const auto whole = reinterpret_steal<object>(PyNumber_Index(source.ptr()));
    if (!whole) {
      PyErr_Clear();
      return false;
    }
    value = static_cast<T>(
        spate::python::number_between(whole, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    return true;
  }
  static handle cast(const spate::python::Number<T>& number, return_value_policy /*policy*/, handle /*parent*/) {
    return PyLong_FromLongLong(number);
  }
};
}  // namespace pybind11::detail
