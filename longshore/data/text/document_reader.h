// A DocumentReader reads plain text, one document after another.
#pragma once

#include <filesystem>
#include <string>

#include "longshore/data/text/line_reader.h"

namespace longshore::data {

// Documents are the paragraphs of a text file: runs of lines between blank ones (empty, or ASCII
// white space only). A document is its lines as they are, joined by "\n"; a CR before the end of a
// line is not part of it. Reads as it goes, so a file may be of any size.
//
// Throws a DataError that names the file, and the line where there is one: on a file that cannot be
// read, on invalid UTF-8, and on a document of more than kMaxTextBytes.
class DocumentReader {
 public:
  explicit DocumentReader(const std::filesystem::path& path) : lines_(path) {}

  // Puts the next document into `document`. False at the end of the file.
  [[nodiscard]] bool next(std::string& document);

 private:
  LineReader lines_;
  std::string line_;
};

}  // namespace longshore::data
