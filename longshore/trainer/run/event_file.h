// An EventFile shows a run in TensorBoard: the numbers of metrics.jsonl by the tags that MaxText
// has for them, and texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "longshore/base/log.h"
#include "longshore/trainer/run/metrics.h"
#include "longshore/trainer/run/record_file.h"
#include "longshore/trainer/run/validation.h"

namespace longshore::trainer {

class EventFile {
 public:
  // Makes a new file in `folder`, behind those that are there, and the folder where there is none.
  // What files there have of `first_step` and later steps is undone: TensorBoard leaves it out.
  // `log` gets RecordFile's lines. Throws FileError where the file cannot be made.
  EventFile(const std::filesystem::path& folder, int64_t first_step, Log log);

  void write(const StepMetrics& metrics);
  // Of a validation after that step, which ended at `time`.
  void write_validation(int64_t step, double time, const Validation& validation);
  // A text, as it is.
  void write_text(int64_t step, const std::string& tag, std::string_view text);
  // What prompts were continued by: lines of JSON, each of which has a `text` or null, as
  // RunEvaluation has them; a row for each.
  void write_samples(int64_t step, const std::string& lines);

  void sync() { file_->sync(); }
  void require_written() const { file_->require_written(); }

 private:
  std::optional<RecordFile> file_;  // always there
};

}  // namespace longshore::trainer
