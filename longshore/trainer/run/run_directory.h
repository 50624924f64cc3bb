// The folder of a run. One process at a time writes to it: the first of a run's processes.
#pragma once

#include <filesystem>
#include <utility>

#include "longshore/base/file_descriptor.h"
#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

class RunDirectory {
 public:
  // base_output_directory/run_name, or a new folder named by config and time. It is made where it
  // is missing, locked for the lifetime of this object, and cleared of what a killed process left
  // half-written. Throws a ConfigError that names the process where another one has the lock,
  // DataError where what a run writes is there as something else, such as a link or a pipe, and
  // FileError where the file system refuses.
  explicit RunDirectory(const Config& config);
  // For the other processes of the run: the folder of the first one. Nothing is locked or written.
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }

  // Throws FileError where the folder was removed, moved or replaced since this was made: what is
  // written from then on would be lost, or be somebody else's. Of other processes than the first
  // nothing is known.
  void require_there() const;

 private:
  std::filesystem::path path_;
  FileDescriptor folder_, lock_;
};

}  // namespace longshore::trainer
