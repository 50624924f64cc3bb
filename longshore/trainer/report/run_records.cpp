#include "longshore/trainer/report/run_records.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/small_file.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr size_t kMostPoints = 4096;     // of a key
constexpr size_t kMostKeys = 400;        // of a file of others
constexpr size_t kMostRecord = 1 << 20;  // bytes of a line
constexpr uint64_t kMostTraceMib = 512;  // in memory it takes several times that
constexpr uint64_t kMostTextMib = 16;    // of any other file
constexpr size_t kMostSampleFiles = 3;   // the newest
constexpr size_t kMostSamples = 40;      // of all of them

// NaN for null, which stands for a number that is not finite.
std::optional<double> number(const ordered_json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (value.is_number()) return value.get<double>();
  return std::nullopt;
}

// Errors of what is done with a file's text say which file it was.
void naming(const std::string& file, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    throw DataError(file + ": " + error.what());
  }
}

// A circle of links is nothing that exists.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

RunRecords::RunRecords(fs::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  if (!fs::is_directory(folder_, ignored))
    throw DataError(path_text(folder_) + ": found no folder, expected that of a run");
  if (!is_there(folder_ / kMetricsFile) && !is_there(folder_ / kConfigFile))
    throw DataError(path_text(folder_) + ": found neither " + kMetricsFile + " nor " + kConfigFile +
                    ", expected the folder of a run");
  update();
}

std::string RunRecords::name() const {
  // Of "runs/a/" the last part is empty.
  const fs::path path = fs::weakly_canonical(folder_);
  return path.filename().string();
}

void RunRecords::update() {
  auto tell = [&](const std::string& file, auto read) {
    try {
      read();
      troubles_.erase(file);
    } catch (const Error& error) {
      troubles_[file] = error.what();
    } catch (const std::exception&) {
      troubles_[file] = file + ": found something else than a run writes";
    }
  };
  auto on_change = [&](const std::string& file, uint64_t most_mib, auto read) {
    tell(file, [&] {
      const std::optional<std::string> text = changed(file, most_mib);
      if (text) naming(file, [&] { read(*text); });
    });
  };
  tell(kMetricsFile, [&] { read_metrics(); });
  on_change(kConfigFile, kMostTextMib, [&](const std::string& text) { read_config(text); });
  on_change(kPlanFile, kMostTextMib, [&](const std::string& text) { plan_text_ = text; });
  on_change(kAdviceFile, kMostTextMib, [&](const std::string& text) { advice_ = text; });
  on_change(kPlanRecordFile, kMostTextMib, [&](const std::string& text) {
    const ordered_json json = ordered_json_tree(text);
    PlanRecord record{.environment = json.at("environment"),
                      .memory = json.at("memory"),
                      .curve_axis = json.at("curve_axis").get<std::string>()};
    for (offload::MemoryKind kind : offload::kMemoryKinds)
      if (json.at("curves").contains(offload::name(kind)))
        record.curves[kind] = read_memory_picture(json["curves"][offload::name(kind)]);
    if (json.contains("step")) {
      record.predicted = read_step_picture(json["step"]);
      record.hardware = json.at("hardware").get<std::string>();
    }
    plan_ = std::move(record);
  });
  if (!is_there(folder_ / kSummaryFile)) {  // of a run that goes on
    summary_ = nullptr;
    seen_.erase(kSummaryFile);
  }
  on_change(kSummaryFile, kMostTextMib, [&](const std::string& text) {
    summary_ = ordered_json_tree(text);
    if (!summary_.is_object()) throw DataError("no object");
  });
  on_change(kTraceFile, kMostTraceMib,
            [&](const std::string& text) { measured_ = read_trace(text); });
  tell(kSamplesFolder, [&] { read_samples(); });
}

std::optional<std::string> RunRecords::changed(const std::string& file, uint64_t most_mib) {
  const fs::path path = folder_ / file;
  if (!fs::is_regular_file(path)) return std::nullopt;
  const std::pair is{fs::last_write_time(path), static_cast<uint64_t>(fs::file_size(path))};
  const auto was = seen_.find(file);
  if (was != seen_.end() && was->second == is) return std::nullopt;
  seen_[file] = is;
  return data::read_small_file(path, most_mib);
}

void RunRecords::read_metrics() {
  const fs::path path = folder_ / kMetricsFile;
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  // A run that resumes takes away what it will write again.
  if (status.st_ino != metrics_file_ || static_cast<uint64_t>(status.st_size) < metrics_read_) {
    numbers_.clear();
    drawn_.clear();
    evaluations_.clear();
    last_time_ = 0;
    steps_done_ = 0;
    metrics_read_ = 0;
    metrics_file_ = status.st_ino;
  }
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(metrics_read_));
  std::vector<char> piece(1 << 16);
  std::string line;
  uint64_t at = metrics_read_;  // where the piece begins
  while (file.read(piece.data(), std::ssize(piece)), file.gcount() > 0) {
    const std::string_view text(piece.data(), static_cast<size_t>(file.gcount()));
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      // Of a line that is too long as much is kept as shows that it is.
      if (line.size() <= kMostRecord) line += text.substr(begin, end - begin);
      if (end == std::string_view::npos) break;
      if (line.size() <= kMostRecord) add_line(line);
      line.clear();
      begin = end + 1;
      metrics_read_ = at + begin;
    }
    at += text.size();
  }
}

// What is no record is left out, as by the run that resumes.
void RunRecords::add_line(const std::string& line) {
  try {
    if (const ordered_json record = ordered_json_tree(line); record.is_object()) add_record(record);
  } catch (const DataError&) {
  }
}

void RunRecords::add_record(const ordered_json& record) {
  const auto step = record.find("step");
  if (step == record.end() || !step->is_number_integer()) return;
  const int64_t at = std::clamp<int64_t>(step->get<int64_t>(), 0, int64_t{1} << 52);
  const bool is_step = record.contains("seconds");
  if (is_step)
    steps_done_ = std::max(steps_done_, at + 1);
  else
    evaluations_.push_back(at);
  add_pause(record, at, is_step);
  for (const auto& [key, value] : record.items()) {
    if (key == "step") continue;
    if (const std::optional<double> one = number(value)) add(key, static_cast<double>(at), *one);
    if (!value.is_object()) continue;
    for (const auto& [part, inner] : value.items())
      if (const std::optional<double> one = number(inner))
        add(key + "/" + part, static_cast<double>(at), *one);
  }
}

// Between two steps there are evaluations and saves; `time` is when a record was written.
void RunRecords::add_pause(const ordered_json& record, int64_t step, bool is_step) {
  const auto time = record.find("time"), seconds = record.find("seconds");
  if (!is_step || time == record.end() || !time->is_number() || !seconds->is_number()) return;
  const double begin = time->get<double>() - seconds->get<double>();
  if (last_time_ > 0 && step == last_step_ + 1)
    add(kPauseSeconds, static_cast<double>(step), std::max(0.0, begin - last_time_));
  last_step_ = step;
  last_time_ = time->get<double>();
}

void RunRecords::add(const std::string& key, double step, double value) {
  if (numbers_.size() >= kMostKeys && !numbers_.contains(key)) return;
  Numbers& numbers = numbers_[key];
  numbers.last = {step, value};
  numbers.points.push_back(numbers.last);
  if (numbers.points.size() >= 2 * kMostPoints)
    numbers.points = thinned(numbers.points, kMostPoints);
  // The first step has to touch memory and fill caches.
  if (++numbers.count > 1 && std::isfinite(value))
    drawn_.try_emplace(key, kMostPoints).first->second.add(value);
}

const Numbers* RunRecords::find(const std::string& key) const {
  const auto found = numbers_.find(key);
  return found == numbers_.end() ? nullptr : &found->second;
}

double RunRecords::quantile(const std::string& key, double part) const {
  const auto found = drawn_.find(key);
  if (found == drawn_.end()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values(found->second.values().begin(), found->second.values().end());
  const auto place =
      values.begin() + static_cast<int64_t>(part * static_cast<double>(values.size() - 1) + 0.5);
  std::ranges::nth_element(values, place);
  return *place;
}

void RunRecords::read_config(const std::string& text) {
  config_.clear();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": "), comment = line.rfind("  # ");
    if (line.starts_with('#') || colon == std::string::npos || comment == std::string::npos ||
        comment < colon)
      continue;
    config_.push_back({.key = line.substr(0, colon),
                       .value = line.substr(colon + 2, comment - colon - 2),
                       .origin = line.substr(comment + 4)});
  }
}

std::string RunRecords::config_value(const std::string& key) const {
  const auto found = std::ranges::find(config_, key, &ConfigValue::key);
  if (found == config_.end()) return "";
  const std::string& value = found->value;
  const bool is_quoted = value.size() >= 2 && value.starts_with('"') && value.ends_with('"');
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

void RunRecords::read_samples() {
  const fs::path folder = folder_ / kSamplesFolder;
  if (!fs::is_directory(folder)) return;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  std::ranges::sort(files, std::greater{});
  if (files.size() > kMostSampleFiles) files.resize(kMostSampleFiles);
  samples_.clear();
  for (const fs::path& file : files) {
    const std::string stem = file.stem().string(), number = stem.substr(stem.rfind('-') + 1);
    const size_t digits = std::min(number.find_first_not_of('0'), number.size() - 1);
    std::istringstream lines(data::read_small_file(file, kMostTextMib));
    for (std::string line; std::getline(lines, line) && samples_.size() < kMostSamples;) {
      ordered_json record;
      naming(file.filename().string(), [&] { record = ordered_json_tree(line); });
      std::string prompt;
      if (record.contains("prompt") && record["prompt"].is_string())
        prompt = record["prompt"].get<std::string>() + " ";
      else if (record.contains("messages"))
        prompt = record["messages"].dump() + "\n";
      const bool has_text = record.contains("text") && record["text"].is_string();
      samples_.push_back(
          {.after = "after " + number.substr(digits) + " steps",
           .text = prompt + (has_text ? record["text"].get<std::string>() : "(not finite)")});
    }
  }
}

}  // namespace longshore::trainer
