// Reads files as the texts that a tokenizer is trained on.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longshore/data/text/document_reader.h"
#include "longshore/data/text/record_reader.h"

namespace longshore {

// Of a file with records their texts: of a pair both together, of a conversation each message. Of
// any other its paragraphs. Files are read as they are needed, in their order.
class TrainingTexts {
 public:
  // The paths must outlive this.
  explicit TrainingTexts(std::span<const std::filesystem::path> paths) : paths_(paths) {}

  // Puts the next text into `text`; false at the end. Throws a DataError with file and line on a
  // bad one.
  [[nodiscard]] bool next(std::string& text);

 private:
  bool next_of_file(std::string& text);
  void open(const std::filesystem::path& path);

  std::span<const std::filesystem::path> paths_;  // those still to be read
  std::filesystem::path path_;                    // that which is being read
  std::unique_ptr<data::RecordReader> records_;
  std::unique_ptr<data::DocumentReader> paragraphs_;
  std::vector<std::string> waiting_;  // messages, the last one first
};

}  // namespace longshore
