// Writes a program's results to a file, or to the standard output where that is called "-".
#pragma once

#include <filesystem>
#include <string>

namespace longshore {

class ResultOutput {
 public:
  // To be made before anything is printed: with "-" all that is printed goes to the standard error
  // from then on, so that the standard output holds the results alone. An empty path is no output.
  explicit ResultOutput(std::filesystem::path path);
  ResultOutput(const ResultOutput&) = delete;
  ResultOutput& operator=(const ResultOutput&) = delete;

  bool is_wanted() const { return !path_.empty(); }
  // Whether it can be written again: a file, which then is replaced.
  bool is_file() const { return is_wanted() && standard_output_ < 0; }
  // A file appears whole or not at all. Throws Error where it cannot be written.
  void write(const std::string& text) const;

 private:
  std::filesystem::path path_;
  int standard_output_ = -1;
};

}  // namespace longshore
