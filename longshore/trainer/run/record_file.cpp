#include "longshore/trainer/run/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/printable.h"

namespace longshore::trainer {

RecordFile::RecordFile(std::filesystem::path path, FileDescriptor file, std::string header, Log log)
    : path_(std::move(path)),
      file_(std::move(file)),
      header_(std::move(header)),
      log_(std::move(log)) {}

void RecordFile::append(std::string record) {
  waiting_.push_back(std::move(record));
  write_waiting();
}

void RecordFile::sync() {
  write_waiting();
  fdatasync(file_.number());
}

void RecordFile::require_written() const {
  if (!trouble_.empty()) throw FileError(trouble_);
}

void RecordFile::open_anew_if_removed() {
  struct stat here, there;
  const bool is_there = lstat(path_.c_str(), &there) == 0;
  if (fstat(file_.number(), &here) != 0) return;
  if (is_there ? here.st_dev == there.st_dev && here.st_ino == there.st_ino : errno != ENOENT)
    return;
  FileDescriptor file =
      open_inside(path_.parent_path(), path_.filename(), O_WRONLY | O_APPEND | O_CREAT);
  if (!file.is_open()) return;
  file_ = std::move(file);
  written_ = 0;
  if (!header_.empty()) waiting_.push_front(header_);
  log_(path_text(path_) + ": was removed; records go on in a new file");
}

void RecordFile::write_waiting() {
  open_anew_if_removed();
  std::string trouble;
  while (trouble.empty() && !waiting_.empty()) {
    const std::string& record = waiting_.front();
    const ssize_t count =
        ::write(file_.number(), record.data() + written_, record.size() - written_);
    if (count > 0)
      written_ += static_cast<size_t>(count);
    else if (count == 0 || errno != EINTR)
      trouble = path_text(path_) + ": cannot be written: " + std::strerror(errno);
    if (written_ < record.size()) continue;
    waiting_.pop_front();
    written_ = 0;
  }
  if (!trouble.empty() && trouble != trouble_) log_(trouble);
  trouble_ = trouble;
}

}  // namespace longshore::trainer
