// Recognises errors of a system that refuses memory or threads, and names the limits that may be
// why.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace longshore {

// "limits: ulimit -v 2000000 KiB, memory.max 512 MiB", or that there are none.
std::string memory_limits();
// "limits: ulimit -u 40 (processes and threads of this user), pids.max 20"; address space is among
// them, since each thread takes some for its stack.
std::string thread_limits();

// Whether memory was refused: by our backends, by the C++ library, or by another library, whose
// message says so.
bool is_out_of_memory(const std::exception& error);
// Whether a thread was, which the C++ library says.
bool is_out_of_threads(const std::exception& error);

// The message of an error; of such ones with the limits. It does not end with a line break.
std::string refusal_text(const std::exception& error);

// Throws a ConfigError where so many more threads cannot run at the same time: OpenMP ends the
// program where it cannot start one of its own.
void require_threads(int64_t count);

// From now on an exception that nobody catches ends the program with exit code 2 where memory or
// threads were refused, with 1 otherwise, and its message.
void end_on_uncaught_exceptions();

}  // namespace longshore
