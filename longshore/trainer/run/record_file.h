// A RecordFile is a file that a run appends records to. The system has a record when append()
// returns; where it takes none, as with a full disk, the record waits in memory: that ends no run.
// Where somebody removes the file, records go on in a new one.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <string>

#include "longshore/base/file_descriptor.h"
#include "longshore/base/log.h"

namespace longshore::trainer {

class RecordFile {
 public:
  // Takes over `file`, opened at `path` with O_APPEND. A new file in its place begins with
  // `header`. `log` gets a line where records begin to wait, wait for another reason, or go on in a
  // new file.
  RecordFile(std::filesystem::path path, FileDescriptor file, std::string header, Log log);

  // After those that wait.
  void append(std::string record);
  // Records are on the disk, those that waited too, as far as the system takes them and the disk
  // can.
  void sync();
  // Throws FileError where records still wait.
  void require_written() const;

 private:
  void open_anew_if_removed();
  void write_waiting();

  std::filesystem::path path_;
  FileDescriptor file_;
  std::string header_;
  Log log_;
  std::deque<std::string> waiting_;
  size_t written_ = 0;   // bytes of the first that waits
  std::string trouble_;  // why they wait; "" where none does
};

}  // namespace longshore::trainer
