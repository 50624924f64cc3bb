#include "longshore/trainer/run/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/run/rewards.h"

namespace longshore::trainer {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostBytesRead = int64_t{64} << 20;  // some 200,000 steps

constexpr const char* kTime = "time";

struct Field {
  const char* key;
  std::variant<double StepMetrics::*, int64_t StepMetrics::*> member;
  bool is_always_there = true;
};

// The keys of a step's record, in their order.
constexpr Field kFields[] = {
    {"step", &StepMetrics::step},
    {kTime, &StepMetrics::time, false},  // not in files of before it came
    {"seconds", &StepMetrics::seconds},
    {"loss", &StepMetrics::loss},
    {"grad_norm", &StepMetrics::gradient_norm},
    {"learning_rate", &StepMetrics::learning_rate},
    {"total_weights", &StepMetrics::total_weights},
    {"tokens_per_second_per_device", &StepMetrics::tokens_per_second_per_device},
    {"tflops_per_device", &StepMetrics::tflops_per_device},
    {"mfu", &StepMetrics::mfu},
    {"device_peak_bytes", &StepMetrics::device_peak_bytes},
    {"pinned_host_peak_bytes", &StepMetrics::pinned_host_peak_bytes},
    {"data_wait_seconds", &StepMetrics::data_wait_seconds, false},
};

// JSON has no word for a number that is not finite: such a number is written as null.
void read(const ordered_json& value, double& number) {
  number = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}
void read(const ordered_json& value, int64_t& number) { number = value.get<int64_t>(); }

std::optional<StepMetrics> parse_record(const std::string& line) {
  try {
    const ordered_json record = ordered_json::parse(line);
    StepMetrics m;
    for (const Field& field : kFields)
      if (field.is_always_there || record.contains(field.key))
        std::visit([&](auto member) { read(record.at(field.key), m.*member); }, field.member);
    if (record.contains("auxiliary_loss")) read(record["auxiliary_loss"], m.auxiliary_loss);
    if (record.contains("expert_load")) read(record["expert_load"], m.expert_load);
    return m;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

// A validation's record but for its time.
std::string without_time(ordered_json record) {
  record.erase(kTime);
  return record.dump();
}

// The step of a validation's record; nothing for any other line.
std::optional<int64_t> parse_validation(const std::string& line) {
  try {
    const ordered_json record = ordered_json::parse(line);
    const bool is_validation =
        record.contains(kValidationLoss) || record.contains(kChoicesAccuracy);
    if (!is_validation || line != record.dump()) return std::nullopt;
    return record.at("step").get<int64_t>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

// The whole lines of a file's end; those longer than any record come as "".
class Lines {
 public:
  // Of the last `most_bytes`.
  Lines(const FileDescriptor& file, int64_t most_bytes)
      : file_(fdopen(dup(file.number()), "r"), fclose) {
    if (!file_ || fseeko(file_.get(), 0, SEEK_END) != 0) return;
    size_ = ftello(file_.get());
    // From the byte before, which may be the break that ends a line.
    position_ = std::max(size_ - most_bytes - 1, int64_t{0});
    if (fseeko(file_.get(), position_, SEEK_SET) != 0) return;
    std::string part;
    if (size_ > most_bytes) next(part);
  }

  bool has_failed() const { return !file_ || size_ < 0 || ferror(file_.get()); }
  int64_t size() const { return size_; }
  // In the file, behind what was read so far.
  int64_t position() const { return position_; }

  bool next(std::string& line) {
    constexpr size_t kMostBytes = size_t{1} << 16;  // validations may be of many sets
    line.clear();
    size_t bytes = 0;
    int c = EOF;
    while (position_ < size_ && (c = getc_unlocked(file_.get())) != EOF && ++position_ && c != '\n')
      if (bytes++ < kMostBytes) line += static_cast<char>(c);
    if (bytes > kMostBytes) line.clear();
    return bytes > 0 || c == '\n';
  }

 private:
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
  int64_t size_ = -1, position_ = 0;
};

double gib(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

}  // namespace

ordered_json record(const StepMetrics& m) {
  ordered_json record;
  for (const Field& field : kFields)
    std::visit([&](auto member) { record[field.key] = m.*member; }, field.member);
  // Only models that have them have these keys.
  if (m.auxiliary_loss != 0) record["auxiliary_loss"] = m.auxiliary_loss;
  if (m.expert_load != 0) record["expert_load"] = m.expert_load;
  if (m.sft_loss != 0) record["sft_loss"] = m.sft_loss;
  if (m.rewards) add_to(record, *m.rewards);
  if (m.policy) {
    record["policy_ratio"] = m.policy->ratio();
    record["policy_clip_fraction"] = m.policy->clip_fraction();
    record["policy_kl"] = m.policy->kl();
  }
  // Only steps of which they are true have these keys.
  if (m.checkpoint_stall_seconds > 0)
    record["checkpoint_stall_seconds"] = m.checkpoint_stall_seconds;
  if (m.is_saving) record["saving"] = true;
  if (m.is_resumed) record["resumed"] = true;
  return record;
}

ordered_json record(int64_t step, double time, const Validation& validation) {
  ordered_json record{{"step", step}, {kTime, time}};
  add_to(record, validation);
  return record;
}

std::string loss_text(double loss) {
  constexpr double kSmall = 0.1;
  loss = without_sign_of_nan(loss);
  return std::abs(loss) < kSmall ? fmt::format("{:.3g}", loss) : fmt::format("{:.3f}", loss);
}

std::string text(const StepMetrics& m, std::optional<int> columns) {
  struct Figure {
    std::string text;
    int rank;  // those of higher ranks are left out first
  };
  std::vector<Figure> figures;
  const auto add = [&](int rank, std::string text) { figures.push_back({std::move(text), rank}); };
  add(0, fmt::format("completed step: {}", m.step));
  add(4, fmt::format("seconds: {:.3f}", m.seconds));
  add(11, fmt::format("TFLOP/s/device: {:.3f}", m.tflops_per_device));
  add(6, fmt::format("MFU: {:.1f} %", 100 * m.mfu));
  add(5, fmt::format("Tokens/s/device: {:.1f}", m.tokens_per_second_per_device));
  add(13, fmt::format("total_weights: {}", m.total_weights));
  add(1, "loss: " + loss_text(m.loss));
  if (m.sft_loss != 0) add(9, fmt::format("sft loss: {:.4f}", without_sign_of_nan(m.sft_loss)));
  if (m.rewards) add(7, rewards_text(*m.rewards));
  if (m.policy)
    add(7, fmt::format("policy ratio: {:.4g}, clipped: {:.2f} %, policy KL: {:.2e}",
                       without_sign_of_nan(m.policy->ratio()), 100 * m.policy->clip_fraction(),
                       without_sign_of_nan(m.policy->kl())));
  if (m.auxiliary_loss != 0)
    add(10, fmt::format("auxiliary loss: {:.4f}", without_sign_of_nan(m.auxiliary_loss)));
  if (m.expert_load != 0) add(10, fmt::format("expert load: {:.2f}", m.expert_load));
  add(2, fmt::format("grad_norm: {:.2f}", without_sign_of_nan(m.gradient_norm)));
  add(3, fmt::format("lr: {:.1e}", m.learning_rate));
  add(8, fmt::format("device GiB: {:.2f}", gib(m.device_peak_bytes)));
  add(12, fmt::format("host GiB: {:.2f}", gib(m.pinned_host_peak_bytes)));
  const auto line = [&] {
    std::string line;
    for (const Figure& figure : figures) line += (line.empty() ? "" : ", ") + figure.text;
    return line;
  };
  while (columns && figures.size() > 1 && std::ssize(line()) > *columns)
    figures.erase(std::ranges::max_element(figures, {}, &Figure::rank));
  return line();
}

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t first_step,
                         const std::function<void(const StepMetrics&)>& keep, Log log) {
  FileDescriptor file = open_inside(path.parent_path(), path.filename(), O_RDWR | O_CREAT);
  const int64_t end = file.is_open() ? end_of_records(path, file, first_step, keep, log) : -1;
  if (end < 0 || ftruncate(file.number(), end) != 0 || fcntl(file.number(), F_SETFL, O_APPEND) != 0)
    throw FileError(path_text(path) + ": cannot be read and written: " + std::strerror(errno));
  file_.emplace(path, std::move(file), "", std::move(log));
}

int64_t MetricsFile::end_of_records(const std::filesystem::path& path, const FileDescriptor& file,
                                    int64_t first_step,
                                    const std::function<void(const StepMetrics&)>& keep,
                                    const Log& log) {
  if (first_step == 0) return 0;
  Lines lines(file, kMostBytesRead);
  const int64_t begin = lines.position();
  int64_t end = begin;
  for (std::string line; lines.next(line);) {
    if (const std::optional<StepMetrics> metrics = parse_record(line)) {
      if (metrics->step >= first_step) continue;
      keep(*metrics);
    } else {
      const std::optional<int64_t> step = parse_validation(line);
      if (!step || *step >= first_step) continue;
      if (*step == first_step - 1) last_validation_ = line;
    }
    line += '\n';
    const auto bytes = std::ssize(line);
    // It follows a line that does not stay, or was cut off before its break.
    if (end + bytes != lines.position() &&
        pwrite(file.number(), line.data(), line.size(), end) != bytes)
      return -1;
    end += bytes;
  }
  if (lines.has_failed()) return -1;
  if (begin == 0) return end;
  if (end == begin)
    throw DataError(
        fmt::format("{}: found {} bytes, of which the last {} hold no record of a step "
                    "before {}, expected one; nearest: move the file away, and the run "
                    "begins another",
                    path_text(path), lines.size(), lines.size() - begin, first_step));
  log(
      fmt::format("{} has {} bytes, of which the last {} were read; those before stay as they are, "
                  "and {} knows nothing of them",
                  path_text(path), lines.size(), lines.size() - begin, kSummaryFile));
  return end;
}

void MetricsFile::write(const StepMetrics& m) { file_->append(record(m).dump() + "\n"); }

bool MetricsFile::write_validation(int64_t step, double time, const Validation& validation) {
  const ordered_json written = record(step, time, validation);
  if (!last_validation_.empty() &&
      without_time(ordered_json::parse(last_validation_)) == without_time(written))
    return false;
  file_->append(written.dump() + "\n");
  return true;
}

std::optional<double> MetricsFile::last_validation(const std::string& key) const {
  if (last_validation_.empty()) return std::nullopt;
  return number(ordered_json::parse(last_validation_), key);
}

}  // namespace longshore::trainer
