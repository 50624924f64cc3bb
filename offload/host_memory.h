// What the host can still give, and what this process has of it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace longshore::offload {

// The kernel's estimate of memory available without swapping, within the process's control groups.
int64_t available_host_bytes();

// What the control groups of a process leave it, each being part of the one above; INT64_MAX where
// none has a limit. What a group has of files is left: the kernel drops it when memory is short.
// `membership` is the process's /proc/PID/cgroup, `root` where groups are mounted.
int64_t control_group_bytes(const std::filesystem::path& membership,
                            const std::filesystem::path& root);

// Of this process, in physical memory; -1 where the kernel does not say.
int64_t resident_bytes();       // now
int64_t peak_resident_bytes();  // at most so far

}  // namespace longshore::offload
