// SPDX-License-Identifier: Apache-2.0
// The functions that libspate-bmi-ofi.so exports; see bmi/late_module.h.
#include "bmi/late_module.h"
#include "bmi/ofi/ofi_module.h"

extern "C" {

__attribute__((visibility("default"))) const char* spate_bmi_module_interface() { return spate::bmi::kModuleInterface; }

/// The caller owns the module.
__attribute__((visibility("default"))) spate::bmi::Module* spate_bmi_module_make(
    const spate::bmi::ModuleEnvironment* environment) {
  return spate::bmi::ofi::make_ofi_module(environment->clock).release();
}

}  // extern "C"
