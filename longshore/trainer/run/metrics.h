// The numbers of a run's steps: metrics.jsonl, with a record of each step and, after it, of a
// validation where there was one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "longshore/base/file_descriptor.h"
#include "longshore/base/log.h"
#include "longshore/trainer/run/validation.h"
#include "longshore/trainer/step/answers.h"
#include "longshore/trainer/step/policy_figures.h"

namespace longshore::trainer {

struct StepMetrics {
  int64_t step = 0;    // from 0
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
  double checkpoint_stall_seconds = 0;  // for which a save delayed the start of the step
};

// "completed step: 12, seconds: 0.412, ...": with `columns` as many of the figures as fit so many
// characters, of which the loss is the last to go.
std::string text(const StepMetrics& metrics, std::optional<int> columns = std::nullopt);

// "2.317"; small divergences are not 0.
std::string loss_text(double loss);

// Appends records. The system has a record when write() returns; where it takes none, as with a
// full disk, the record waits in memory: that ends no run. Where somebody removes the file, records
// go on in a new one.
class MetricsFile {
 public:
  // Records of steps before `first_step` stay in an existing file. The others are removed, since a
  // run that resumes writes them again, and so are lines that are no records, as a line that was
  // cut off. `keep` gets the records of steps that stay, one after the other; nothing here grows
  // with their number. Of a file of more than 64 MiB only the end is read, and `log` says so. It
  // also gets a line where records begin to wait, or wait for another reason. Throws FileError
  // where the file cannot be read or written, DataError where the name is that of something else
  // than a regular file, or of one with other names (hard links), or where the end that is read has
  // no record that stays.
  MetricsFile(const std::filesystem::path& path, int64_t first_step,
              const std::function<void(const StepMetrics&)>& keep, Log log);

  // Appends a step's record, after those that wait.
  void write(const StepMetrics& metrics);
  // Appends the record of a validation after that step, unless it is of the step before
  // `first_step` and the file had it already.
  void write_validation(int64_t step, const Validation& validation);
  // A number of a validation after the step before `first_step`, by its key, where the file had
  // both.
  std::optional<double> last_validation(const std::string& key) const;
  // Whether it had a validation there.
  bool ends_with_validation() const { return !last_validation_.empty(); }
  // Records are on the disk, those that waited too, as far as the system takes them and the disk
  // can.
  void sync();
  // Throws FileError where records still wait.
  void require_written() const;

 private:
  // Brings the records that stay together; gives the end of the last, or -1, with errno.
  int64_t end_of_records(int64_t first_step, const std::function<void(const StepMetrics&)>& keep);
  void append(const std::string& line);
  void open_anew_if_removed();
  void write_waiting();

  std::filesystem::path path_;
  Log log_;
  std::string last_validation_;  // the record that the file had after its last step
  std::string waiting_;          // the text of records that wait
  std::string trouble_;          // why they wait; "" where none does
  FileDescriptor file_;
};

}  // namespace longshore::trainer
