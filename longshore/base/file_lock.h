// Locks on open files, which the kernel releases when they are closed, as the end of their process
// does in any case.
#pragma once

#include <sys/file.h>

#include <cerrno>

#include "longshore/base/file_descriptor.h"

namespace longshore {

// `unavailable` where a file system has no locks, as some of clusters have not.
enum class FileLock { taken, held_elsewhere, unavailable };

// Waits for nobody.
inline FileLock try_lock(const FileDescriptor& file) {
  if (flock(file.number(), LOCK_EX | LOCK_NB) == 0) return FileLock::taken;
  return errno == EWOULDBLOCK ? FileLock::held_elsewhere : FileLock::unavailable;
}

}  // namespace longshore
