#include "longshore/trainer/run/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/file_inside.h"
#include "longshore/base/integer.h"
#include "longshore/base/printable.h"
#include "longshore/base/wall_clock.h"
#include "longshore/data/tensorboard/event_records.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kPrefix = "events.out.tfevents.";

// Tags by keys of metrics.jsonl; others follow from their keys.
struct Tag {
  std::string_view key, tag;
};
constexpr Tag kTags[] = {
    {"learning_rate", "learning/current_learning_rate"},
    {"seconds", "perf/step_time_seconds"},
    {"tokens_per_second_per_device", "perf/per_device_tokens_per_sec"},
    {"tflops_per_device", "perf/per_device_tflops_per_sec"},
    {"mfu", "perf/mfu"},
    {"device_peak_bytes", "perf/device_peak_bytes"},
    {"pinned_host_peak_bytes", "perf/pinned_host_peak_bytes"},
    {"data_wait_seconds", "perf/data_wait_seconds"},
    {"checkpoint_stall_seconds", "perf/checkpoint_stall_seconds"},
    {"validation_loss", "eval/avg_loss"},
    {"validation_losses", "eval/avg_loss"},
    {"validation_perplexities", "eval/avg_perplexity"},
};

std::string tag_of(const std::string& key, const std::string& section) {
  if (const Tag* tag = std::ranges::find(kTags, key, &Tag::key); tag != std::end(kTags))
    return std::string(tag->tag);
  constexpr std::string_view kValidation = "validation_";
  return section + key.substr(key.starts_with(kValidation) ? kValidation.size() : 0);
}

// The numbers of a record of metrics.jsonl; of sets each by its name behind the tag.
std::vector<data::Scalar> scalars(const ordered_json& record, const std::string& section) {
  std::vector<data::Scalar> scalars;
  for (const auto& [key, value] : record.items()) {
    if (key == "step" || key == "time") continue;
    const std::string tag = tag_of(key, section);
    if (value.is_number()) scalars.push_back({tag, value.get<double>()});
    if (value.is_object())
      for (const auto& [set, number] : value.items())
        scalars.push_back({tag + "/" + set, number.get<double>()});
  }
  return scalars;
}

bool is_event_file(const fs::path& path) { return path.filename().string().starts_with(kPrefix); }

// A file's name begins with seconds since the epoch, and TensorBoard reads files by their names:
// the new one is behind all others, whatever the clock says.
int64_t seconds_for_name(const fs::path& folder) {
  constexpr int64_t kMost = 9'999'999'998;  // of ten digits
  auto seconds = static_cast<int64_t>(seconds_since_epoch());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!is_event_file(entry.path())) continue;
    const std::string name = entry.path().filename();
    const std::string_view rest = std::string_view(name).substr(kPrefix.size());
    const auto there = integer<int64_t>(rest.substr(0, rest.find('.')));
    if (there && *there >= seconds && *there <= kMost) seconds = *there + 1;
  }
  return seconds;
}

bool has_events(const fs::path& folder) {
  std::error_code error;
  return std::ranges::any_of(fs::directory_iterator(folder, error), is_event_file,
                             [](const auto& entry) { return entry.path(); });
}

fs::path new_file(const fs::path& folder) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return folder / fmt::format("{}{:010}.{}.{}", kPrefix, seconds_for_name(folder),
                              host[0] == '\0' ? "localhost" : host.data(), getpid());
}

}  // namespace

EventFile::EventFile(const fs::path& folder, int64_t first_step, Log log) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError(path_text(folder) + ": cannot be made: " + error.message());
  if (first_step == 0 && has_events(folder))
    log(path_text(folder) +
        " has events of another run of that name, which TensorBoard leaves out from now on");
  const fs::path path = new_file(folder);
  FileDescriptor file =
      open_inside(folder, path.filename(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL);
  if (!file.is_open())
    throw FileError(path_text(path) + ": cannot be made: " + std::strerror(errno));
  const double time = seconds_since_epoch();
  const std::string header = data::version_record(time);
  file_.emplace(path, std::move(file), header, std::move(log));
  file_->append(header);
  file_->append(data::start_record(time, first_step));
}

void EventFile::write(const StepMetrics& metrics) {
  std::vector<data::Scalar> numbers = scalars(record(metrics), "learning/");
  // TensorBoard's server puts values in the place of undone ones tag by tag: each step has all.
  if (metrics.checkpoint_stall_seconds == 0)
    numbers.push_back({tag_of("checkpoint_stall_seconds", ""), 0});
  file_->append(data::scalars_record(metrics.time, metrics.step, numbers));
}

void EventFile::write_validation(int64_t step, double time, const Validation& validation) {
  file_->append(data::scalars_record(time, step, scalars(record(step, time, validation), "eval/")));
}

void EventFile::write_text(int64_t step, const std::string& tag, std::string_view text) {
  file_->append(data::text_record(seconds_since_epoch(), step, tag,
                                  {.shape = {}, .cells = {data::verbatim(text)}}));
}

void EventFile::write_samples(int64_t step, const std::string& lines) {
  data::TextTable table{.shape = {}, .cells = {"prompt", "text"}};
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    ordered_json sample = ordered_json::parse(line);
    const ordered_json text = std::exchange(sample["text"], nullptr);
    sample.erase("text");
    const bool is_prompt = sample.size() == 1 && sample.contains("prompt");
    table.cells.push_back(data::verbatim(is_prompt && sample["prompt"].is_string()
                                             ? sample["prompt"].get<std::string>()
                                             : sample.dump(2)));
    table.cells.push_back(data::verbatim(text.is_string() ? text.get<std::string>() : "(null)"));
  }
  table.shape = {std::ssize(table.cells) / 2, 2};
  file_->append(data::text_record(seconds_since_epoch(), step, "samples", table));
}

}  // namespace longshore::trainer
