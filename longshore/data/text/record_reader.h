// A RecordReader reads the records of a file, such as lines of JSON or rows of a table, each as an
// object of JSON.
#pragma once

#include <cstdint>
#include <string>

namespace longshore::data {

// Reads as it goes, so a file may be of any size. A record's text has at most kMaxTextBytes.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Puts the text of the next record into `record`, as the file has it where it holds JSON, which
  // is not looked into. Of a row of a table its columns, strings, or null where nothing stands.
  // False at the end of the file. Throws a DataError with file and line on what is no record, or
  // longer than it may be.
  [[nodiscard]] virtual bool next(std::string& record) = 0;

  // Where the record that next() gave begins, counted from 1.
  virtual int64_t line_number() const = 0;
};

}  // namespace longshore::data
