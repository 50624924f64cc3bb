// guarded() calls a C library that reports an error through a function that must not return to it.
#pragma once

#include <csetjmp>
#include <new>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore::data {

// What the library's function for errors fills and jumps to.
struct LibraryError {
  std::jmp_buf jump;
  char message[256] = "";
  bool is_of_memory = false;  // that the system refused: nothing is wrong with the file
};

// Throws a DataError, "`where`: MESSAGE", when the library reports an error during `work`, or
// std::bad_alloc where that is of memory. That leaves `work` without the end of its scopes: it
// makes nothing that has a destructor.
template <class Work>
__attribute__((noinline)) void guarded(LibraryError& error, const char* where, const Work& work) {
  if (setjmp(error.jump) != 0) {
    if (error.is_of_memory) throw std::bad_alloc();
    throw DataError(std::string(where) + ": " + library_message(error.message));
  }
  work();
}

}  // namespace longshore::data
