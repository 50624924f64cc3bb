// The numbers of a run's steps: metrics.jsonl, with a record of each step and, after it, of a
// validation where there was one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "longshore/base/file_descriptor.h"
#include "longshore/base/log.h"
#include "longshore/trainer/run/record_file.h"
#include "longshore/trainer/run/validation.h"
#include "longshore/trainer/step/answers.h"
#include "longshore/trainer/step/policy_figures.h"

namespace longshore::trainer {

struct StepMetrics {
  int64_t step = 0;    // from 0
  double time = 0;     // at its end, seconds since the epoch; 0 in records that lack it
  double seconds = 0;  // from the request for the batch to the results, after synchronization
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  double auxiliary_loss = 0;  // beside the loss; 0 where the model has none
  // Tokens of the expert that has most over their mean, the mean over layers with experts and
  // micro-batches; 0 where the model has no experts.
  double expert_load = 0;
  double sft_loss = 0;                  // a part of the loss; 0 where there is none
  std::optional<Rewards> rewards;       // where answers are compared
  std::optional<PolicyFigures> policy;  // where a policy has drawn them
  int64_t total_weights = 0;            // targets that are trained, or pairs, or answers
  double tokens_per_second_per_device = 0;
  double tflops_per_device = 0;  // model FLOPs, longshore/trainer/step/flops.h
  double mfu = 0;                // 0 to 1
  int64_t device_peak_bytes = 0, pinned_host_peak_bytes = 0;
  double data_wait_seconds = 0;         // of `seconds`, for the batch
  double checkpoint_stall_seconds = 0;  // for which a save delayed the start of the step
  bool is_saving = false;               // a save was being written while it ran
  bool is_resumed = false;              // the first after the run went on from a checkpoint
};

// "completed step: 12, seconds: 0.412, ...": with `columns` as many of the figures as fit so many
// characters, of which the loss is the last to go.
std::string text(const StepMetrics& metrics, std::optional<int> columns = std::nullopt);

// "2.317"; small divergences are not 0.
std::string loss_text(double loss);

// What the file has of a step, and of a validation after it that ended at `time`.
nlohmann::ordered_json record(const StepMetrics& metrics);
nlohmann::ordered_json record(int64_t step, double time, const Validation& validation);

// Appends records, as RecordFile does.
class MetricsFile {
 public:
  // Records of steps before `first_step` stay in an existing file. The others are removed, since a
  // run that resumes writes them again, and so are lines that are no records, as a line that was
  // cut off. `keep` gets the records of steps that stay, one after the other; nothing here grows
  // with their number. Of a file of more than 64 MiB only the end is read, and `log` says so. It
  // also gets RecordFile's lines. Throws FileError
  // where the file cannot be read or written, DataError where the name is that of something else
  // than a regular file, or of one with other names (hard links), or where the end that is read has
  // no record that stays.
  MetricsFile(const std::filesystem::path& path, int64_t first_step,
              const std::function<void(const StepMetrics&)>& keep, Log log);

  void write(const StepMetrics& metrics);
  // Appends the record of a validation, unless it is of the step before `first_step` and the file
  // had one of the same numbers already. Gives whether it did.
  bool write_validation(int64_t step, double time, const Validation& validation);
  // A number of a validation after the step before `first_step`, by its key, where the file had
  // both.
  std::optional<double> last_validation(const std::string& key) const;
  // Whether it had a validation there.
  bool ends_with_validation() const { return !last_validation_.empty(); }
  void sync() { file_->sync(); }
  void require_written() const { file_->require_written(); }

 private:
  // Brings the records that stay together; gives the end of the last, or -1, with errno.
  int64_t end_of_records(const std::filesystem::path& path, const FileDescriptor& file,
                         int64_t first_step, const std::function<void(const StepMetrics&)>& keep,
                         const Log& log);

  std::string last_validation_;     // the record that the file had after its last step
  std::optional<RecordFile> file_;  // always there
};

}  // namespace longshore::trainer
