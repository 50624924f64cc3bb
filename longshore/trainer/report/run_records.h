// RunRecords reads what a run has written into its folder, as far as it has come: its numbers step
// by step, its config, its plan, its trace, its samples. Files of others are not trusted: what
// cannot be read is named and left out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/sample.h"
#include "longshore/trainer/report/line_chart.h"
#include "longshore/trainer/report/step_picture.h"

namespace longshore::trainer {

// The numbers of one key of metrics.jsonl, by step. Of many the least and the largest of neighbours
// are kept.
struct Numbers {
  std::vector<Point> points;
  Point last;
  int64_t count = 0;
};

struct ConfigValue {
  std::string key, value, origin;  // "default", or the file or command line that gave it
};

struct TextSample {
  std::string after;  // "after 200 steps"
  std::string text;
};

// What a run writes as it begins, with the names of json.
struct PlanRecord {
  nlohmann::ordered_json environment, memory;
  offload::PerMemoryKind<MemoryPicture> curves;
  std::string curve_axis;                // what the curves are over
  std::optional<StepPicture> predicted;  // with a profile
  std::string hardware;                  // that profile
};

// How long after one step the next began, which no record has: it follows from two.
inline constexpr const char* kPauseSeconds = "pause_seconds";

class RunRecords {
 public:
  // Throws DataError where the folder holds no metrics.jsonl and no config.yml.
  explicit RunRecords(std::filesystem::path folder);

  // Reads what has come since.
  void update();
  // How much that is.
  uint64_t unread_bytes() const;

  const std::filesystem::path& folder() const { return folder_; }
  // What tables and curves call it: its folder's name, unless it is given another.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Nested keys as "validation_losses/wiki". Null where there is no such key.
  const Numbers* find(const std::string& key) const;
  const std::map<std::string, Numbers>& numbers() const { return numbers_; }
  int64_t steps_done() const { return steps_done_; }
  // Over all steps but the first, of many over some that are drawn; NaN without any.
  double quantile(const std::string& key, double part) const;
  double median(const std::string& key) const { return quantile(key, 0.5); }
  // Steps after which there was an evaluation.
  const std::vector<int64_t>& evaluations() const { return evaluations_; }
  // Steps while which a save was being written, and the first ones after the run went on.
  bool is_saving(int64_t step) const { return std::ranges::binary_search(saving_, step); }
  bool is_resumed(int64_t step) const { return std::ranges::binary_search(resumed_, step); }

  const std::vector<ConfigValue>& config() const { return config_; }
  std::string config_value(const std::string& key) const;  // "" for none
  const std::optional<PlanRecord>& plan() const { return plan_; }
  const std::optional<StepPicture>& measured_step() const { return measured_; }
  const nlohmann::ordered_json& summary() const { return summary_; }  // null before the end
  const std::string& plan_text() const { return plan_text_; }
  const std::string& advice() const { return advice_; }
  const std::vector<TextSample>& samples() const { return samples_; }
  // A line for each file of which something could not be read, and why.
  const std::map<std::string, std::string>& troubles() const { return troubles_; }

 private:
  // When the file was written, and its size.
  using Version = std::pair<std::filesystem::file_time_type, uint64_t>;
  // Nothing of a file that is not there, or that is read.
  std::optional<Version> unread(const std::string& file) const;
  // The text of a file that has changed since it was last read; nothing of one that has not, that
  // is not there, or that is larger.
  std::optional<std::string> changed(const std::string& file, uint64_t most_mib);
  void read_metrics();
  void read_new_lines();
  void add_line(const std::string& line);
  // Whether it is one.
  bool add_record(const nlohmann::ordered_json& record);
  void add_pause(const nlohmann::ordered_json& record, int64_t step, bool is_step);
  void add(const std::string& key, double step, double value);
  void read_config(const std::string& text);
  void read_samples();

  std::filesystem::path folder_;
  std::string name_;
  std::map<std::string, Version> seen_;
  uint64_t metrics_read_ = 0;  // bytes
  uint64_t metrics_file_ = 0;  // its inode
  int64_t lines_ = 0;          // of it
  int64_t bad_lines_ = 0, first_bad_line_ = 0;
  std::string left_out_;  // the first key beyond those that are kept
  std::map<std::string, Numbers> numbers_;
  std::map<std::string, Sample<double>> drawn_;
  int64_t steps_done_ = 0;
  int64_t last_step_ = 0;
  double last_time_ = 0;  // of that step; 0 before any
  std::vector<int64_t> evaluations_, saving_, resumed_;
  std::vector<ConfigValue> config_;
  std::optional<PlanRecord> plan_;
  std::optional<StepPicture> measured_;
  nlohmann::ordered_json summary_;
  std::string plan_text_, advice_;
  std::vector<TextSample> samples_;
  std::map<std::string, std::string> troubles_;
};

}  // namespace longshore::trainer
