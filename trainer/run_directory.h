// The folder of a run, which one process at a time writes to: the first of a run's processes.
#pragma once

#include <filesystem>
#include <utility>

#include "trainer/config/config.h"

namespace longshore::trainer {

class RunDirectory {
 public:
  // base_output_directory/run_name, or named by config and time; made if need be, locked until this
  // goes, and cleared of what a killed process left half-written. Throws a ConfigError that names
  // the process where another has the lock.
  explicit RunDirectory(const Config& config);
  // The folder of the run's first process, as the others have it: nothing is locked or written.
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void lock(const Config& config);

  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace longshore::trainer
