#include "trainer/config/hardware_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using models::Dtype;
using offload::Hardware;
using offload::RateCurve;

constexpr double kMostDevices = 64;  // that share a link
constexpr double kMost = 1e30;       // of anything: products of two stay finite

[[noreturn]] void refuse(const Setting& setting, const std::string& expected,
                         const std::string& hint = "") {
  std::string found = setting.value.list ? "[" + join(*setting.value.list) + "]"
                                         : "'" + excerpt(setting.value.text) + "'";
  throw ConfigError(setting.origin + " " + setting.key + ": found " + found + ", expected " +
                    expected + (hint.empty() ? "" : "; nearest: " + hint));
}

std::optional<double> positive(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (!is_whole || !(value > 0) || value > kMost) return std::nullopt;
  return value;
}

double number(const Setting& setting, double most = kMost) {
  std::optional<double> value;
  if (!setting.value.list) value = positive(setting.value.text);
  if (!value || *value > most)
    refuse(setting,
           most < kMost ? fmt::format("a number above 0, at most {:g}", most) : "a number above 0");
  return *value;
}

int64_t bytes(const Setting& setting) {
  constexpr double kMostBytes = 1e18;
  return static_cast<int64_t>(number(setting, kMostBytes));
}

RateCurve curve(const Setting& setting) {
  constexpr const char* kExpected = "a rate above 0, or a list of SIZE:RATE with ascending sizes";
  if (!setting.value.list) {
    std::optional<double> rate = positive(setting.value.text);
    if (!rate) refuse(setting, kExpected);
    return RateCurve(*rate);
  }
  std::vector<RateCurve::Point> points;
  for (const std::string& item : *setting.value.list) {
    size_t colon = item.find(':');
    std::optional<double> size, rate;
    if (colon != std::string::npos) {
      size = positive(std::string_view(item).substr(0, colon));
      rate = positive(std::string_view(item).substr(colon + 1));
    }
    if (!size || !rate || (!points.empty() && *size <= points.back().first))
      refuse(setting, kExpected);
    points.push_back({*size, *rate});
  }
  if (points.empty()) refuse(setting, kExpected);
  return RateCurve(std::move(points));
}

// Every WORK there is.
const std::set<std::string>& works() {
  static const std::set<std::string> works = [] {
    std::set<std::string> bare, all;
    for (const models::Op* op : models::all_ops()) bare.insert(op->name);
    for (models::OpClass op_class : models::kOpClasses) bare.insert(name(op_class));
    for (const std::string& work : bare)
      for (const char* prefix : {"", "host."})
        for (const char* suffix : {"", ".f32", ".bf16"}) all.insert(prefix + work + suffix);
    return all;
  }();
  return works;
}

const std::string kFlops = "flops_per_second.", kBytes = "bytes_per_second.";

// The keys that every profile must have come first.
const std::vector<std::string>& plain_keys() {
  static const std::vector<std::string> keys{"target",
                                             "device_bytes",
                                             "host_bytes",
                                             "launch_seconds",
                                             "link_to_device",
                                             "link_to_host",
                                             "device_reserved_bytes",
                                             "peak_flops_per_second.bf16",
                                             "peak_flops_per_second.f32",
                                             "cache_bytes",
                                             "fetch_bytes_per_second",
                                             "link_both_ways",
                                             "gpus_per_link",
                                             "host_bandwidth",
                                             "peer_to_peer",
                                             "ici",
                                             "dcn"};
  return keys;
}
constexpr size_t kNeeded = 6;

void set(const Setting& setting, Hardware& hardware) {
  const std::string &key = setting.key, &text = setting.value.text;
  if (key == "target") {
    if (setting.value.list || (text != "cuda" && text != "cpu"))
      refuse(setting, "cuda or cpu", nearest(text, std::vector<std::string>{"cuda", "cpu"}));
    hardware.target = text == "cuda" ? models::Target::cuda : models::Target::cpu;
  } else if (key == "device_bytes") {
    hardware.device_bytes = bytes(setting);
  } else if (key == "host_bytes") {
    hardware.host_bytes = bytes(setting);
  } else if (key == "device_reserved_bytes") {
    hardware.device_reserved_bytes = bytes(setting);
  } else if (key == "launch_seconds") {
    hardware.launch_seconds = number(setting, 1);
  } else if (key == "peak_flops_per_second.bf16") {
    hardware.peak_flops_per_second[Dtype::bfloat16] = number(setting);
  } else if (key == "peak_flops_per_second.f32") {
    hardware.peak_flops_per_second[Dtype::float32] = number(setting);
  } else if (key == "link_to_device") {
    hardware.link_to_device = curve(setting);
  } else if (key == "link_to_host") {
    hardware.link_to_host = curve(setting);
  } else if (key == "cache_bytes") {
    hardware.cache_bytes = bytes(setting);
  } else if (key == "fetch_bytes_per_second") {
    hardware.fetch_bytes_per_second = number(setting);
  } else if (key == "link_both_ways") {
    hardware.link_both_ways = number(setting, 1);
  } else if (key == "gpus_per_link") {
    const double count = number(setting, kMostDevices);
    if (count != std::floor(count)) refuse(setting, "a whole number");
    hardware.gpus_per_link = static_cast<int>(count);
  } else if (key == "host_bandwidth") {
    hardware.host_bandwidth = number(setting);
  } else if (key == "ici") {
    hardware.ici = curve(setting);
  } else if (key == "dcn") {
    hardware.dcn = curve(setting);
  } else if (key == "peer_to_peer") {
    if (setting.value.list || (text != "true" && text != "false")) refuse(setting, "true or false");
    hardware.peer_to_peer = text == "true";
  } else {
    bool is_flops = key.starts_with(kFlops), is_bytes = key.starts_with(kBytes);
    std::string work = key.substr(is_flops ? kFlops.size() : is_bytes ? kBytes.size() : 0);
    if ((!is_flops && !is_bytes) || !works().contains(work)) {
      std::vector<std::string> known = plain_keys();
      for (const std::string& one : works())
        for (const std::string& kind : {kFlops, kBytes}) known.push_back(kind + one);
      throw ConfigError(setting.origin + ": found an unknown key, '" + excerpt(key) +
                        "', expected one of " + join(plain_keys()) + ", " + kFlops + "WORK, " +
                        kBytes + "WORK; nearest: " + nearest(key, known));
    }
    (is_flops ? hardware.flops_per_second : hardware.bytes_per_second)[work] = curve(setting);
  }
}

// Without a rate a kernel would take no time. What is measured names ops, what is written by hand
// their class.
void require_rates(const std::set<std::string>& given, const std::string& file) {
  auto has = [&](const std::string& key) {
    return given.contains(key) || given.contains(key + ".bf16") || given.contains(key + ".f32");
  };
  for (const auto& [kind, op_class] : {std::pair{kFlops, models::OpClass::matmul},
                                       {kFlops, models::OpClass::attention},
                                       {kBytes, models::OpClass::memory}}) {
    const std::string key = kind + name(op_class);
    const bool has_op = std::ranges::any_of(models::all_ops(), [&](const models::Op* op) {
      return op->op_class == op_class && has(kind + op->name);
    });
    if (!has(key) && !has_op)
      throw ConfigError(file + ": found no " + key +
                        ", which every profile needs, as it stands or for .bf16 or .f32");
  }
}

std::string curve_text(const RateCurve& curve) {
  if (curve.points().size() == 1) return fmt::format("{:.6g}", curve.points()[0].second);
  std::string text;
  for (auto [size, rate] : curve.points())
    text += fmt::format("{}{:.6g}:{:.6g}", text.empty() ? "" : ", ", size, rate);
  return "[" + text + "]";
}

}  // namespace

Hardware parse_hardware(std::string_view text, const std::string& file, const std::string& name) {
  Hardware hardware{.name = name};
  std::set<std::string> given;
  for (const Setting& setting : parse_yaml_settings(text, file)) {
    set(setting, hardware);
    given.insert(setting.key);
  }
  for (size_t i = 0; i < kNeeded; ++i)
    if (!given.contains(plain_keys()[i]))
      throw ConfigError(file + ": found no " + plain_keys()[i] + ", which every profile needs");
  require_rates(given, file);
  for (auto [one, other] : {std::pair{"cache_bytes", "fetch_bytes_per_second"},
                            {"fetch_bytes_per_second", "cache_bytes"}})
    if (given.contains(one) && !given.contains(other))
      throw ConfigError(file + ": found " + one + ", but no " + other + ", which goes with it");
  if (hardware.device_reserved_bytes >= hardware.device_bytes)
    throw ConfigError(file + ": device_reserved_bytes leaves nothing of device_bytes");
  return hardware;
}

std::vector<std::string> hardware_names(const fs::path& configs_directory) {
  std::vector<std::string> names = yaml_files(configs_directory / "hardware");
  for (std::string& name : names) name = fs::path(name).stem();
  return names;
}

Hardware read_hardware(const std::string& name_or_file, const fs::path& configs_directory) {
  fs::path path = name_or_file;
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    path = configs_directory / "hardware" / (name_or_file + ".yml");
  if (!fs::is_regular_file(path, error)) {
    const std::vector<std::string> names = hardware_names(configs_directory);
    const std::string close = nearest(name_or_file, names);
    throw KeyError(
        "hardware",
        "found '" + excerpt(name_or_file) + "', expected a file or one of " + join(names) +
            (close.empty() ? "" : "; nearest: " + close) +
            (name_or_file == "this_machine" ? " (plan --measure makes this_machine)" : ""));
  }
  return parse_hardware(read_yaml_file(path, path.string()), path.string(), path.stem());
}

std::string text(const Hardware& hardware) {
  std::string result;
  auto line = [&](const std::string& key, const std::string& value) {
    result += key + ": " + value + "\n";
  };
  line("target", models::is_cuda(hardware.target) ? "cuda" : "cpu");
  line("device_bytes", std::to_string(hardware.device_bytes));
  if (hardware.device_reserved_bytes > 0)
    line("device_reserved_bytes", std::to_string(hardware.device_reserved_bytes));
  line("host_bytes", std::to_string(hardware.host_bytes));
  for (auto [dtype, rate] : hardware.peak_flops_per_second)
    line(std::string("peak_flops_per_second.") + name(dtype), fmt::format("{:.6g}", rate));
  line("launch_seconds", fmt::format("{:.6g}", hardware.launch_seconds));
  for (const auto& [work, curve] : hardware.flops_per_second)
    line(kFlops + work, curve_text(curve));
  for (const auto& [work, curve] : hardware.bytes_per_second)
    line(kBytes + work, curve_text(curve));
  if (hardware.cache_bytes > 0) {
    line("cache_bytes", std::to_string(hardware.cache_bytes));
    line("fetch_bytes_per_second", fmt::format("{:.6g}", hardware.fetch_bytes_per_second));
  }
  line("link_to_device", curve_text(hardware.link_to_device));
  line("link_to_host", curve_text(hardware.link_to_host));
  line("link_both_ways", fmt::format("{:.6g}", hardware.link_both_ways));
  line("gpus_per_link", std::to_string(hardware.gpus_per_link));
  if (hardware.host_bandwidth > 0)
    line("host_bandwidth", fmt::format("{:.6g}", hardware.host_bandwidth));
  line("peer_to_peer", hardware.peer_to_peer ? "true" : "false");
  for (const auto& [key, curve] : {std::pair{"ici", hardware.ici}, {"dcn", hardware.dcn}})
    if (!curve.points().empty()) line(key, curve_text(curve));
  return result;
}

}  // namespace longshore::trainer
