// A JsonListReader reads the elements of a JSON list, one after another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "longshore/data/files/byte_source.h"
#include "longshore/data/text/record_reader.h"

namespace longshore::data {

// The file is one list of objects. Where an element ends is told by its brackets alone.
class JsonListReader final : public RecordReader {
 public:
  explicit JsonListReader(const std::filesystem::path& path);

  [[nodiscard]] bool next(std::string& record) override;
  int64_t line_number() const override { return first_line_; }

 private:
  // -1 at the file's end.
  int peek();
  int take();
  int peek_behind_space();
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  size_t at_ = 0, filled_ = 0;
  int64_t line_ = 1, first_line_ = 1;
  bool is_first_ = true, is_finished_ = false;
};

// Whether the file's first character, white space aside, is that of a list.
bool is_json_list(const std::filesystem::path& path);

}  // namespace longshore::data
