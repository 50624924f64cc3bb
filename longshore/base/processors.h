// usable_processors() says how many processors this process may keep busy.
#pragma once

#include <cstdint>
#include <filesystem>

namespace longshore {

// Processors that the process may run on, by its affinity.
int64_t bound_processors();

// The processors' time that control groups leave to the process, in processors; infinity where none
// has a quota. `root` is where the file system with /proc and the groups begins.
double processor_quota(const std::filesystem::path& root = "/");

// Threads that are worth having at the same time: as many as the processors that the process may
// run on, and not more than the quota, rounded up. At least 1. Found once.
int64_t usable_processors();

}  // namespace longshore
