#include "longshore/trainer/run/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/file_lock.h"
#include "longshore/base/integer.h"
#include "longshore/base/partial_name.h"
#include "longshore/base/printable.h"
#include "longshore/trainer/checkpoint/checkpoint.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

// A new folder, named by config and time, and by a number where that name is taken: only a run_name
// in the config resumes a run.
fs::path new_directory(const Config& config) {
  const std::time_t now = std::time(nullptr);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", std::localtime(&now));
  const fs::path path =
      config.base_output_directory / (fs::path(config.config_file).stem().string() + "-" + time);
  fs::path directory = path;
  std::error_code error;
  for (int number = 2; !fs::create_directory(directory, error) && !error; ++number)
    directory = path.string() + "-" + std::to_string(number);
  return directory;
}

std::string owner(const FileDescriptor& file) {
  char text[32];
  const ssize_t count = pread(file.number(), text, sizeof text, 0);
  const std::optional<pid_t> process =
      count > 0 ? integer<pid_t>({text, static_cast<size_t>(count)}) : std::nullopt;
  return process ? "process " + std::to_string(*process) : "a process";
}

// What a run finds of its own in its folder, which may be somebody else's.
void require_own_files(const fs::path& folder) {
  for (const char* file : {kConfigFile, kPlanFile, kPlanRecordFile, kAdviceFile, kReportFile,
                           kMetricsFile, kSummaryFile, kTraceFile, kLockFile})
    require_regular_file(folder / file);
  for (const char* inside : {kCheckpointsFolder, kSamplesFolder}) require_folder(folder / inside);
}

// The lock file of the folder, with this process's number in it. Without locks nobody is kept out.
FileDescriptor locked(const fs::path& folder, const Config& config) {
  const fs::path path = folder / kLockFile;
  FileDescriptor file = open_inside(folder, kLockFile, O_RDWR | O_CREAT);
  auto fail = [&] {
    throw FileError(path_text(path) + ": cannot be written: " + std::strerror(errno));
  };
  if (!file.is_open()) fail();
  if (try_lock(file) == FileLock::held_elsewhere)
    throw ConfigError(location(config, "run_name") + ": " + path_text(folder) + ": " + owner(file) +
                      " trains there; nearest: another run_name, or none");
  const std::string pid = std::to_string(getpid());
  if (ftruncate(file.number(), 0) != 0 ||
      pwrite(file.number(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    fail();
  return file;
}

}  // namespace

RunDirectory::RunDirectory(const Config& config) {
  std::error_code error;
  fs::create_directories(config.base_output_directory, error);
  path_ = config.run_name.empty() ? new_directory(config)
                                  : config.base_output_directory / config.run_name;
  fs::create_directories(path_, error);
  if (error) throw FileError(path_text(path_) + ": cannot be made: " + error.message());
  folder_ = FileDescriptor(open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  require_own_files(path_);
  lock_ = locked(path_, config);
  for (const fs::path& folder : {path_, path_ / kCheckpointsFolder, path_ / kSamplesFolder})
    remove_leftovers(folder);
}

void RunDirectory::require_there() const {
  struct stat begun, now;
  if (!folder_.is_open() || fstat(folder_.number(), &begun) != 0) return;
  auto fail = [&](const std::string& found) {
    throw FileError(path_text(path_) + ": found " + found +
                    ", expected the folder in which this run began: it ends, since what it writes "
                    "there would be lost");
  };
  if (stat(path_.c_str(), &now) == 0) {
    if (now.st_dev != begun.st_dev || now.st_ino != begun.st_ino) fail("another folder");
  } else if (errno == ENOENT || errno == ENOTDIR) {  // not a file system that fails for a while
    fail(begun.st_nlink > 0 ? "that it was moved" : "that it was removed");
  }
  // A removal may have met a file that was made anew behind its back, and left the folder.
  if (struct stat lock; fstat(lock_.number(), &lock) == 0 && lock.st_nlink == 0)
    fail("that its lock was removed");
}

}  // namespace longshore::trainer
