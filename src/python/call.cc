// SPDX-License-Identifier: Apache-2.0
#include "python/call.h"

#include <spate.h>

#include <cstring>

namespace spate::python {

void raise_error(int error, const char* sentence) {
  // OSError chooses its subclass by the number. pybind11 must be given the class that OSError has chosen.
  const py::object made = py::reinterpret_borrow<py::object>(PyExc_OSError)(error, decoded(sentence));
  PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
  throw py::error_already_set();
}

void raise_error(long negative_errno) {
  const int error = static_cast<int>(-negative_errno);
  const char* const sentence = spate_last_error();
  raise_error(error, *sentence != '\0' ? sentence : std::strerror(error));
}

long long number_between(const py::handle& whole, long long least, long long most) {
  int beyond = 0;
  const long long number = PyLong_AsLongLongAndOverflow(whole.ptr(), &beyond);
  if (beyond == 0 && least <= number && number <= most) return number;
  const bool small = beyond < 0 || (beyond == 0 && number < least);
  PyErr_Format(PyExc_OverflowError, "%R is %s than %lld", whole.ptr(), small ? "less" : "greater",
               small ? least : most);
  throw py::error_already_set();
}

py::str decoded(const char* name) { return py::reinterpret_steal<py::str>(PyUnicode_DecodeFSDefault(name)); }

Memory::Memory(const py::handle& object, Use use) {
  if (PyObject_GetBuffer(object.ptr(), &view_, use == Use::kWrite ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
    throw py::error_already_set();
}

}  // namespace spate::python
