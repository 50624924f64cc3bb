// A LockFile keeps out the other processes that make one of the same name, on this machine and
// where the file system has locks for all that share it.
#pragma once

#include <filesystem>
#include <functional>

#include "longshore/base/file_descriptor.h"

namespace longshore {

// Held while it lives. The file is there meanwhile; where its process is killed it stays, and keeps
// nobody out.
class LockFile {
 public:
  // Waits while another holds it; `stops` is asked several times a second and may throw, which ends
  // that. Where the file cannot be made, or the file system has no locks, nobody is kept out.
  LockFile(std::filesystem::path path, const std::function<void()>& stops);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace longshore
