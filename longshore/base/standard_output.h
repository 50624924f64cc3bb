// Writes to standard output, and remembers why a write failed, so that a program can end with it:
// a disk may be full, or standard output closed.
#pragma once

#include <string_view>

namespace longshore {

// Puts the text out as it is, with what comes next or at the end; for people see
// longshore/base/print.h.
void put_output(std::string_view text);

// Writes out what was put so far.
void flush_output();

// Throws FileError, which says why, where a write failed: there is no use in going on for what is
// put out alone.
void require_output();

// For a program's end: writes out what was put. Throws as require_output() does, unless whoever
// read it is gone.
void finish_output();

}  // namespace longshore
