// loaded_library() finds a library that LibTorch is linked against.
#pragma once

#include <dlfcn.h>

#include <string>

#include "longshore/base/error.h"

namespace longshore::models {

// LibTorch finds such a library by its own RPATH, so it is in the process before any code of ours
// runs. Taking that very copy by its name needs no search path, and neither the library nor a GPU
// where Longshore is built.
inline void* loaded_library(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (!library)
    throw Error(std::string(name) + " is not loaded, which LibTorch should have: " + dlerror());
  return library;
}

}  // namespace longshore::models
