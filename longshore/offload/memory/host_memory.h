// The host's memory: what is available, and what this process has taken.
#pragma once

#include <cstdint>
#include <filesystem>

namespace longshore::offload {

// The kernel's estimate of memory available without swapping, within the process's control groups
// and its limits on address space and data (`ulimit -v`, `-d`). `root` is where the file system
// with /proc and the control groups begins.
int64_t available_host_bytes(const std::filesystem::path& root = "/");

// What the limits of the process's control groups, and of the groups above these, leave to it;
// INT64_MAX where none has a limit. Cached files do not count as taken, since the kernel drops them
// when memory is short.
int64_t control_group_bytes(const std::filesystem::path& root = "/");

// What the limits on address space and data leave; INT64_MAX where there are none.
int64_t limited_bytes();

// Physical memory of this process, in bytes; -1 where the kernel does not tell.
int64_t resident_bytes();       // now
int64_t peak_resident_bytes();  // the most so far

}  // namespace longshore::offload
