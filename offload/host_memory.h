// The host's memory: what is available, and what this process has taken.
#pragma once

#include <cstdint>
#include <filesystem>

namespace longshore::offload {

// The kernel's estimate of memory available without swapping, within the process's control groups.
int64_t available_host_bytes();

// What the limits of a process's control groups, and of the groups above these, leave to it;
// INT64_MAX where none has a limit. Cached files do not count as taken, since the kernel drops them
// when memory is short. `membership` is the process's /proc/PID/cgroup; groups are mounted at
// `root`.
int64_t control_group_bytes(const std::filesystem::path& membership,
                            const std::filesystem::path& root);

// Physical memory of this process, in bytes; -1 where the kernel does not tell.
int64_t resident_bytes();       // now
int64_t peak_resident_bytes();  // the most so far

}  // namespace longshore::offload
