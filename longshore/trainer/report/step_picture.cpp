#include "longshore/trainer/report/step_picture.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "longshore/base/error.h"

namespace longshore::trainer {
namespace {

using nlohmann::ordered_json;
using offload::Category;
using offload::Ledger;

constexpr double kMostTime = 1e18;  // microseconds in a file of others

// What a lane did from one time to another, in seconds since the step began.
struct Work {
  std::string lane, op;
  WorkKind kind = WorkKind::other;
  double begin = 0, end = 0;
};

// A move says by its name and stage what it moves.
WorkKind kind_of(const std::string& lane, const std::string& name, const std::string& stage,
                 const std::string& phase, bool recomputes) {
  if (lane.ends_with("compute"))
    return recomputes            ? WorkKind::recomputed
           : phase == "forward"  ? WorkKind::forward
           : phase == "backward" ? WorkKind::backward
                                 : WorkKind::optimizer_step;
  if (name.find(".compute") != std::string::npos) return WorkKind::weights;
  if (name.find(".gradient") != std::string::npos) return WorkKind::gradients;
  if (stage == "batch" || stage == "results" || stage == "norm") return WorkKind::other;
  return stage == "optimizer" ? WorkKind::states : WorkKind::activations;
}

// The bars of one lane, from left to right, of works in the order of their times.
std::vector<LaneBar> bars(const std::vector<Work>& works, const std::string& lane, double end) {
  std::vector<std::array<float, kWorkKinds>> shares(StepPicture::kColumns);
  const double scale = StepPicture::kColumns / end;
  for (const Work& work : works) {
    if (work.lane != lane) continue;
    double at = std::max(work.begin * scale, 0.0);
    const double stop = std::min<double>(work.end * scale, StepPicture::kColumns);
    while (at < stop) {
      const double after = std::min(stop, std::floor(at) + 1);
      shares[static_cast<size_t>(at)][static_cast<size_t>(work.kind)] +=
          static_cast<float>(after - at);
      at = after;
    }
  }
  std::vector<LaneBar> bars;
  for (int column = 0; column < StepPicture::kColumns; ++column) {
    const auto& share = shares[column];
    if (std::accumulate(share.begin(), share.end(), 0.0F) < 0.5F) continue;
    const auto kind = static_cast<WorkKind>(std::ranges::max_element(share) - share.begin());
    if (!bars.empty() && bars.back().end == column && bars.back().kind == kind)
      bars.back().end = column + 1;
    else
      bars.push_back({.begin = column, .end = column + 1, .kind = kind});
  }
  return bars;
}

StepPicture picture_of(const std::vector<Work>& works, const std::vector<MemorySample>& device) {
  StepPicture picture;
  for (const Work& work : works) picture.seconds = std::max(picture.seconds, work.end);
  if (picture.seconds <= 0) return picture;
  std::vector<std::string> lanes;  // those of plans, and what else a file has
  for (offload::Lane lane : offload::kLanes) lanes.push_back(name(lane));
  std::map<std::pair<std::string, WorkKind>, double> ops;
  for (const Work& work : works) {
    if (std::ranges::find(lanes, work.lane) == lanes.end()) lanes.push_back(work.lane);
    if (work.lane == name(offload::Lane::compute))
      ops[{work.op, work.kind}] += work.end - work.begin;
  }
  for (const std::string& lane : lanes) {
    if (std::ranges::find(works, lane, &Work::lane) == works.end()) continue;
    LanePicture& drawn = picture.lanes.emplace_back();
    drawn.name = lane;
    drawn.bars = bars(works, lane, picture.seconds);
    for (const Work& work : works)
      if (work.lane == lane) drawn.seconds[static_cast<size_t>(work.kind)] += work.end - work.begin;
  }
  for (const auto& [op, seconds] : ops)
    picture.ops.push_back({.op = op.first, .kind = op.second, .seconds = seconds});
  std::ranges::stable_sort(picture.ops, std::greater{}, &OpTime::seconds);
  picture.device = memory_picture(device, picture.seconds);
  return picture;
}

// A kind, lane and category of a file of others.
template <class Enum, class Names>
Enum named(const std::string& found, const Names& all) {
  for (Enum one : all)
    if (found == name(one)) return one;
  throw DataError("found " + found + ", expected one of the names that a run writes");
}

constexpr std::array kAllWorkKinds{
    WorkKind::forward,        WorkKind::backward, WorkKind::recomputed,
    WorkKind::optimizer_step, WorkKind::weights,  WorkKind::activations,
    WorkKind::gradients,      WorkKind::states,   WorkKind::other};

}  // namespace

const char* name(WorkKind kind) {
  static constexpr std::array kNames{"forward",   "backward",         "recomputed",
                                     "optimizer", "weights",          "activations",
                                     "gradients", "optimizer states", "batch and results"};
  return kNames[static_cast<size_t>(kind)];
}

const char* style(WorkKind kind) {
  static constexpr std::array kStyles{"forward",        "backward", "recomputed",
                                      "optimizer-step", "weights",  "activations",
                                      "gradients",      "states",   "other"};
  return kStyles[static_cast<size_t>(kind)];
}

double LanePicture::busy_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

int64_t total_bytes(const Ledger::ByCategory& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

int64_t MemoryPicture::most_bytes() const {
  int64_t most = 0;
  for (const Ledger::ByCategory& column : columns) most = std::max(most, total_bytes(column));
  return most;
}

MemoryPicture memory_picture(const std::vector<MemorySample>& samples, double end) {
  MemoryPicture picture;
  if (samples.empty() || end <= 0) return picture;
  Ledger::ByCategory last{};
  auto sample = samples.begin();
  for (int column = 0; column < StepPicture::kMemoryColumns; ++column) {
    Ledger::ByCategory fullest = last;
    const double until = end * (column + 1) / StepPicture::kMemoryColumns;
    for (; sample != samples.end() && sample->at < until; ++sample) {
      last = sample->live;
      if (total_bytes(last) > total_bytes(fullest)) fullest = last;
    }
    picture.columns.push_back(fullest);
  }
  return picture;
}

StepPicture step_picture(const std::vector<offload::Event>& events,
                         const std::vector<MemorySample>& device) {
  std::vector<Work> works;
  for (const offload::Event& event : events)
    if (event.span.end > event.span.begin) {
      const std::string lane = name(event.lane);
      works.push_back({.lane = lane,
                       .op = event.op,
                       .kind = kind_of(lane, event.name, event.scope.stage,
                                       offload::name(event.scope.phase), event.recomputes),
                       .begin = event.span.begin,
                       .end = event.span.end});
    }
  return picture_of(works, device);
}

StepPicture read_trace(std::string_view text) try {
  const ordered_json trace = ordered_json::parse(text);
  const ordered_json& events = trace.at("traceEvents");
  std::map<int64_t, std::string> lanes;
  std::optional<int64_t> first, step;  // the last
  for (const ordered_json& event : events) {
    const std::string& phase = event.at("ph").get_ref<const std::string&>();
    if (phase == "M" && event.at("name") == "thread_name")
      lanes[event.at("tid").get<int64_t>()] = event.at("args").at("name").get<std::string>();
    if (phase != "X") continue;
    const int64_t one = event.at("args").at("step").get<int64_t>();
    first = std::min(first.value_or(one), one);
    step = std::max(step.value_or(one), one);
  }
  std::vector<Work> works;
  double begin = INFINITY, end = 0;  // in microseconds
  for (const ordered_json& event : events) {
    if (event.at("ph") != "X" || event.at("args").at("step").get<int64_t>() != step) continue;
    const double from = event.at("ts").get<double>(), length = event.at("dur").get<double>();
    if (!(length > 0 && length < kMostTime && std::abs(from) < kMostTime)) continue;
    const std::string& lane = lanes.at(event.at("tid").get<int64_t>());
    const std::string categories = event.at("cat").get<std::string>();
    const ordered_json& args = event.at("args");
    begin = std::min(begin, from);
    end = std::max(end, from + length);
    works.push_back({.lane = lane,
                     .op = args.at("op").get<std::string>(),
                     .kind = kind_of(lane, event.at("name").get<std::string>(),
                                     args.at("stage").get<std::string>(),
                                     categories.substr(0, categories.find(',')),
                                     categories.ends_with(",recompute")),
                     .begin = from,
                     .end = from + length});
  }
  std::vector<MemorySample> device;
  for (const ordered_json& event : events) {
    if (event.at("ph") != "C" || event.at("name") != "device bytes") continue;
    MemorySample& sample = device.emplace_back();
    sample.at = std::max(0.0, (event.at("ts").get<double>() - begin) / 1e6);
    for (const auto& [category, bytes] : event.at("args").items())
      sample.live[named<Category>(category, offload::kCategories)] = bytes.get<int64_t>();
  }
  for (Work& work : works) {
    work.begin = (work.begin - begin) / 1e6;
    work.end = (work.end - begin) / 1e6;
  }
  StepPicture picture = picture_of(works, device);
  if (step) picture.first_step = *first, picture.last_step = *step;
  return picture;
} catch (const std::out_of_range&) {
  throw DataError("an event is on a lane without a name");
} catch (const nlohmann::json::exception&) {
  throw DataError("expected what a run writes with profiler_steps");
}

ordered_json json(const MemoryPicture& picture) {
  ordered_json categories;
  for (Category category : offload::kCategories) {
    ordered_json bytes = ordered_json::array();
    bool is_used = false;
    for (const Ledger::ByCategory& column : picture.columns) {
      bytes.push_back(column[category]);
      is_used |= column[category] > 0;
    }
    if (is_used) categories[name(category)] = bytes;
  }
  return {{"columns", picture.columns.size()}, {"categories", categories}};
}

MemoryPicture read_memory_picture(const ordered_json& json) {
  MemoryPicture picture;
  const int64_t columns = json.at("columns").get<int64_t>();
  if (columns < 0 || columns > StepPicture::kMemoryColumns) throw DataError("too many columns");
  picture.columns.resize(static_cast<size_t>(columns));
  for (const auto& [category, bytes] : json.at("categories").items()) {
    const auto which = named<Category>(category, offload::kCategories);
    if (bytes.size() != picture.columns.size()) throw DataError("columns of different numbers");
    for (size_t i = 0; i < bytes.size(); ++i)
      picture.columns[i][which] = std::clamp<int64_t>(bytes[i].get<int64_t>(), 0, int64_t{1} << 56);
  }
  return picture;
}

ordered_json json(const StepPicture& picture) {
  ordered_json lanes = ordered_json::array(), ops = lanes;
  for (const LanePicture& lane : picture.lanes) {
    ordered_json bars = ordered_json::array(), seconds;
    for (const LaneBar& bar : lane.bars)
      bars.push_back({bar.begin, bar.end, static_cast<int>(bar.kind)});
    for (WorkKind kind : kAllWorkKinds)
      if (const double s = lane.seconds[static_cast<size_t>(kind)]; s > 0) seconds[name(kind)] = s;
    lanes.push_back({{"name", lane.name}, {"seconds", seconds}, {"bars", bars}});
  }
  for (const OpTime& op : picture.ops)
    ops.push_back({{"op", op.op}, {"kind", name(op.kind)}, {"seconds", op.seconds}});
  return {{"seconds", picture.seconds},
          {"lanes", lanes},
          {"device_memory", json(picture.device)},
          {"ops", ops}};
}

StepPicture read_step_picture(const ordered_json& json) {
  StepPicture picture{.seconds = json.at("seconds").get<double>()};
  if (!(picture.seconds >= 0 && picture.seconds < kMostTime)) throw DataError("a step of no time");
  for (const ordered_json& one : json.at("lanes")) {
    LanePicture& lane = picture.lanes.emplace_back();
    lane.name = one.at("name").get<std::string>();
    for (const auto& [kind, seconds] : one.at("seconds").items())
      lane.seconds[static_cast<size_t>(named<WorkKind>(kind, kAllWorkKinds))] =
          seconds.get<double>();
    for (const ordered_json& bar : one.at("bars")) {
      const int begin = bar.at(0).get<int>(), end = bar.at(1).get<int>(),
                kind = bar.at(2).get<int>();
      if (begin < 0 || end < begin || end > StepPicture::kColumns || kind < 0 || kind >= kWorkKinds)
        throw DataError("a bar that is not within the picture");
      lane.bars.push_back({.begin = begin, .end = end, .kind = static_cast<WorkKind>(kind)});
    }
  }
  picture.device = read_memory_picture(json.at("device_memory"));
  for (const ordered_json& op : json.at("ops"))
    picture.ops.push_back({.op = op.at("op").get<std::string>(),
                           .kind = named<WorkKind>(op.at("kind").get<std::string>(), kAllWorkKinds),
                           .seconds = op.at("seconds").get<double>()});
  return picture;
}

}  // namespace longshore::trainer
