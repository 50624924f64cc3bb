#include "longshore/trainer/report/run_records.h"

#include <fmt/format.h>
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
#include "longshore/base/text.h"
#include "longshore/data/files/small_file.h"
#include "longshore/trainer/config/run_files.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr size_t kMostPoints = 4096;     // of a key
constexpr size_t kMostKeys = 400;        // of a file of others
constexpr size_t kMostRecord = 1 << 20;  // bytes of a line
constexpr uint64_t kMostTraceMib = 128;  // in memory it takes several times that
constexpr uint64_t kMostTextMib = 16;    // of any other file
constexpr size_t kMostSampleFiles = 3;   // the newest
constexpr size_t kMostSamples = 40;      // of all of them

// NaN for null, which stands for a number that is not finite.
std::optional<double> number(const ordered_json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (value.is_number()) return value.get<double>();
  return std::nullopt;
}

bool is_true(const ordered_json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && *found == true;
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

// Whether a file has that name. Throws where something else has it, as a folder or a link to
// nothing.
bool is_file(const fs::path& folder, const std::string& file) {
  std::error_code ignored;
  const fs::path path = folder / file;
  if (fs::is_regular_file(path, ignored)) return true;
  if (fs::symlink_status(path, ignored).type() == fs::file_type::not_found) return false;
  throw DataError(fmt::format("{}: found {}, expected a file", file,
                              fs::is_directory(path, ignored) ? "a folder"
                              : is_there(path)                ? "no regular file"
                                                              : "a link to nothing"));
}

}  // namespace

RunRecords::RunRecords(fs::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  if (!fs::is_directory(folder_, ignored))
    throw DataError(path_text(folder_) + ": found no folder, expected that of a run");
  if (!is_there(folder_ / kMetricsFile) && !is_there(folder_ / kConfigFile))
    throw DataError(path_text(folder_) + ": found neither " + kMetricsFile + " nor " + kConfigFile +
                    ", expected the folder of a run");
  // Of "runs/a/" the last part is empty.
  name_ = fs::weakly_canonical(folder_).filename().string();
  update();
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

std::optional<RunRecords::Version> RunRecords::unread(const std::string& file) const {
  std::error_code error;
  const fs::path path = folder_ / file;
  const Version is{fs::last_write_time(path, error), fs::file_size(path, error)};
  const auto was = seen_.find(file);
  if (error || (was != seen_.end() && was->second == is)) return std::nullopt;
  return is;
}

uint64_t RunRecords::unread_bytes() const {
  uint64_t bytes = 0;
  for (const char* file :
       {kConfigFile, kPlanFile, kAdviceFile, kPlanRecordFile, kSummaryFile, kTraceFile})
    if (const std::optional<Version> version = unread(file)) bytes += version->second;
  std::error_code error;
  const uint64_t of_metrics = fs::file_size(folder_ / kMetricsFile, error);
  return error ? bytes : bytes + of_metrics - std::min(of_metrics, metrics_read_);
}

std::optional<std::string> RunRecords::changed(const std::string& file, uint64_t most_mib) {
  if (!is_file(folder_, file)) return std::nullopt;
  const std::optional<Version> version = unread(file);
  if (!version) return std::nullopt;
  seen_[file] = *version;
  return data::read_small_file(folder_ / file, most_mib);
}

void RunRecords::read_metrics() {
  const fs::path path = folder_ / kMetricsFile;
  struct stat status;
  if (!is_file(folder_, kMetricsFile) || stat(path.c_str(), &status) != 0) return;
  // A run that resumes takes away what it will write again.
  if (status.st_ino != metrics_file_ || static_cast<uint64_t>(status.st_size) < metrics_read_) {
    numbers_.clear();
    drawn_.clear();
    evaluations_.clear();
    saving_.clear();
    resumed_.clear();
    left_out_.clear();
    lines_ = bad_lines_ = 0;
    last_time_ = 0;
    steps_done_ = 0;
    metrics_read_ = 0;
    metrics_file_ = status.st_ino;
  }
  read_new_lines();
  std::vector<std::string> troubles;
  if (bad_lines_ > 0)
    troubles.push_back(fmt::format("{} that no run writes, the first of them line {}, {} left out",
                                   plural(bad_lines_, "line"), first_bad_line_,
                                   bad_lines_ == 1 ? "was" : "were"));
  if (!left_out_.empty())
    troubles.push_back(fmt::format("more than {} keys; {} and others are left out", kMostKeys,
                                   excerpt(left_out_)));
  if (!troubles.empty()) throw DataError(std::string(kMetricsFile) + ": " + join(troubles, "; "));
}

void RunRecords::read_new_lines() {
  std::ifstream file(folder_ / kMetricsFile, std::ios::binary);
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
      add_line(line);
      line.clear();
      begin = end + 1;
      metrics_read_ = at + begin;
    }
    at += text.size();
  }
}

// What is no record is left out, as by the run that resumes.
void RunRecords::add_line(const std::string& line) {
  ++lines_;
  try {
    if (line.size() <= kMostRecord && add_record(ordered_json_tree(line))) return;
  } catch (const DataError&) {
  }
  if (bad_lines_++ == 0) first_bad_line_ = lines_;
}

bool RunRecords::add_record(const ordered_json& record) {
  if (!record.is_object()) return false;
  const auto step = record.find("step");
  if (step == record.end() || !step->is_number_integer()) return false;
  const int64_t at = std::clamp<int64_t>(step->get<int64_t>(), 0, int64_t{1} << 52);
  const bool is_step = record.contains("seconds");
  if (is_step)
    steps_done_ = std::max(steps_done_, at + 1);
  else
    evaluations_.push_back(at);
  if (is_true(record, "saving")) saving_.push_back(at);
  if (is_true(record, "resumed")) resumed_.push_back(at);
  add_pause(record, at, is_step);
  for (const auto& [key, value] : record.items()) {
    if (key == "step") continue;
    if (const std::optional<double> one = number(value)) add(key, static_cast<double>(at), *one);
    if (!value.is_object()) continue;
    for (const auto& [part, inner] : value.items())
      if (const std::optional<double> one = number(inner))
        add(key + "/" + part, static_cast<double>(at), *one);
  }
  return true;
}

// Between two steps there are evaluations and saves; `time` is when a record was written. How long
// a run lay still before it was resumed is no time of its.
void RunRecords::add_pause(const ordered_json& record, int64_t step, bool is_step) {
  const auto time = record.find("time"), seconds = record.find("seconds");
  if (!is_step || time == record.end() || !time->is_number() || !seconds->is_number()) return;
  const double begin = time->get<double>() - seconds->get<double>();
  if (last_time_ > 0 && step == last_step_ + 1 && !is_resumed(step))
    add(kPauseSeconds, static_cast<double>(step), std::max(0.0, begin - last_time_));
  last_step_ = step;
  last_time_ = time->get<double>();
}

void RunRecords::add(const std::string& key, double step, double value) {
  if (numbers_.size() >= kMostKeys && !numbers_.contains(key)) {
    if (left_out_.empty()) left_out_ = key;
    return;
  }
  Numbers& numbers = numbers_[key];
  numbers.last = {step, value};
  numbers.points.push_back(numbers.last);
  if (numbers.points.size() >= 2 * kMostPoints)
    numbers.points = thinned(numbers.points, kMostPoints);
  // The first step, of a resumed run too, has to touch memory and fill caches.
  if (++numbers.count > 1 && !is_resumed(static_cast<int64_t>(step)) && std::isfinite(value))
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
