// A folder for what a fuzz target writes, in memory where there is such a file system.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace longshore {

class MemoryFolder {
 public:
  MemoryFolder() {
    namespace fs = std::filesystem;
    const fs::path parent = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = parent / "longshore-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~MemoryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace longshore
