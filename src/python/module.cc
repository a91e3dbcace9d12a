// SPDX-License-Identifier: Apache-2.0
// The extension module spate._spate: libspate for Python. Programs import the package spate (beside this file).
#include "python/handles.h"

PYBIND11_MODULE(_spate, module) {
  module.doc() = "libspate for Python; use the package spate.";
  module.attr("__version__") = spate_version();
  spate::python::bind_operation(module);
  spate::python::bind_file(module);
  spate::python::bind_file_system(module);
}
