#include "longshore/trainer/config/hardware_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using models::Dtype;
using offload::Hardware;
using offload::ProfileSource;
using offload::RateCurve;

struct Range {
  double least, most;
};
// Far beyond any machine's, and such that what is computed of them is neither infinite nor nothing.
constexpr Range kRates{1, 1e21};  // bytes or FLOPs a second
constexpr Range kSizes{1, 1e21};  // bytes or FLOPs of the work that a rate is for
constexpr Range kPeaks{1e6, 1e21};
constexpr Range kBytesHeld{1, 1e18};
constexpr Range kLaunchSeconds{1e-12, 1};
constexpr Range kParts{1e-3, 1};
constexpr Range kGpusPerLink{1, 64};
constexpr Range kHopSeconds{0, 1};
constexpr Range kContention{0, 0.5};
constexpr double kMostLinks = 64;

[[noreturn]] void refuse(const Setting& setting, const std::string& expected,
                         const std::string& choice = "") {
  std::string found = setting.value.list ? "[" + excerpt(join(*setting.value.list)) + "]"
                                         : "'" + excerpt(setting.value.text) + "'";
  throw ConfigError(setting.origin + " " + excerpt(setting.key) + ": found " + found +
                    ", expected " + expected + nearest_help(choice));
}

std::optional<double> number_in(Range range, std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (!is_whole || !(range.least <= value && value <= range.most)) return std::nullopt;
  return value;
}

double number(const Setting& setting, Range range) {
  std::optional<double> value;
  if (!setting.value.list) value = number_in(range, setting.value.text);
  if (!value) refuse(setting, fmt::format("a number from {:g} to {:g}", range.least, range.most));
  return *value;
}

int64_t bytes(const Setting& setting) { return static_cast<int64_t>(number(setting, kBytesHeld)); }

RateCurve curve(const Setting& setting) {
  static const std::string kExpected =
      fmt::format("a rate from {:g} to {:g}, or a list of SIZE:RATE with ascending sizes",
                  kRates.least, kRates.most);
  if (!setting.value.list) {
    std::optional<double> rate = number_in(kRates, setting.value.text);
    if (!rate) refuse(setting, kExpected);
    return RateCurve(*rate);
  }
  std::vector<RateCurve::Point> points;
  for (const std::string& item : *setting.value.list) {
    size_t colon = item.find(':');
    std::optional<double> size, rate;
    if (colon != std::string::npos) {
      size = number_in(kSizes, std::string_view(item).substr(0, colon));
      rate = number_in(kRates, std::string_view(item).substr(colon + 1));
    }
    if (!size || !rate || (!points.empty() && *size <= points.back().first))
      refuse(setting, kExpected);
    points.push_back({*size, *rate});
  }
  if (points.empty()) refuse(setting, kExpected);
  return RateCurve(std::move(points));
}

enum class Presence { required, optional };
using enum Presence;

// A key of a profile, other than the rates of WORK.
struct ProfileKey {
  std::string name;
  Presence presence;
  std::function<void(const Setting&, Hardware&)> set;
  std::function<std::string(const Hardware&)> text;  // the value; "" if the profile has none
};

std::string number_text(double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; }

std::string curve_text(const RateCurve& curve) {
  if (curve.points().empty()) return "";
  if (curve.points().size() == 1) return number_text(curve.points()[0].second);
  std::string text;
  for (auto [size, rate] : curve.points())
    text += fmt::format("{}{:.6g}:{:.6g}", text.empty() ? "" : ", ", size, rate);
  return "[" + text + "]";
}

ProfileKey bytes_key(const char* name, Presence presence, int64_t Hardware::*member) {
  return {name, presence,
          [=](const Setting& setting, Hardware& hardware) { hardware.*member = bytes(setting); },
          [=](const Hardware& hardware) {
            return hardware.*member > 0 ? std::to_string(hardware.*member) : "";
          }};
}

ProfileKey number_key(const char* name, Presence presence, double Hardware::*member, Range range) {
  return {name, presence,
          [=](const Setting& setting, Hardware& hardware) {
            hardware.*member = number(setting, range);
          },
          [=](const Hardware& hardware) { return number_text(hardware.*member); }};
}

ProfileKey curve_key(const char* name, Presence presence, RateCurve Hardware::*member) {
  return {name, presence,
          [=](const Setting& setting, Hardware& hardware) { hardware.*member = curve(setting); },
          [=](const Hardware& hardware) { return curve_text(hardware.*member); }};
}

ProfileKey peak_key(Dtype dtype) {
  return {std::string("peak_flops_per_second.") + name(dtype), optional,
          [=](const Setting& setting, Hardware& hardware) {
            hardware.peak_flops_per_second[dtype] = number(setting, kPeaks);
          },
          [=](const Hardware& hardware) {
            const auto peak = hardware.peak_flops_per_second.find(dtype);
            return peak == hardware.peak_flops_per_second.end() ? "" : number_text(peak->second);
          }};
}

void set_target(const Setting& setting, Hardware& hardware) {
  const std::string& text = setting.value.text;
  if (setting.value.list || (text != "cuda" && text != "cpu"))
    refuse(setting, "cuda or cpu", nearest(text, std::vector<std::string>{"cuda", "cpu"}));
  hardware.target = text == "cuda" ? models::Target::cuda : models::Target::cpu;
}

constexpr ProfileSource kSources[] = {ProfileSource::measured, ProfileSource::published_runs,
                                      ProfileSource::data_sheet};

void set_source(const Setting& setting, Hardware& hardware) {
  std::vector<std::string> names;
  for (ProfileSource source : kSources) names.push_back(name(source));
  const std::string& text = setting.value.text;
  const auto found = setting.value.list ? names.end() : std::ranges::find(names, text);
  if (found == names.end()) refuse(setting, "one of " + join(names), nearest(text, names));
  hardware.source = kSources[found - names.begin()];
}

void set_ici_links(const Setting& setting, Hardware& hardware) {
  hardware.ici_links = curve(setting);
  for (const auto& [devices, links] : hardware.ici_links.points())
    if (links > kMostLinks)
      refuse(setting, fmt::format("a number of links from 1 to {:g}, or a list of DEVICES:LINKS "
                                  "with ascending numbers of devices",
                                  kMostLinks));
}

void set_gpus_per_link(const Setting& setting, Hardware& hardware) {
  const double count = number(setting, kGpusPerLink);
  if (count != std::floor(count)) refuse(setting, "a whole number");
  hardware.gpus_per_link = static_cast<int>(count);
}

void set_peer_to_peer(const Setting& setting, Hardware& hardware) {
  const std::string& text = setting.value.text;
  if (setting.value.list || (text != "true" && text != "false")) refuse(setting, "true or false");
  hardware.peer_to_peer = text == "true";
}

const std::vector<ProfileKey>& profile_keys() {
  static const std::vector<ProfileKey> keys{
      {"target", required, set_target,
       [](const Hardware& h) { return models::is_cuda(h.target) ? "cuda" : "cpu"; }},
      {"source", optional, set_source,
       [](const Hardware& h) {
         return h.source == ProfileSource::unstated ? "" : std::string(name(h.source));
       }},
      bytes_key("device_bytes", required, &Hardware::device_bytes),
      bytes_key("device_reserved_bytes", optional, &Hardware::device_reserved_bytes),
      bytes_key("host_bytes", required, &Hardware::host_bytes),
      peak_key(Dtype::bfloat16),
      peak_key(Dtype::float32),
      number_key("launch_seconds", required, &Hardware::launch_seconds, kLaunchSeconds),
      bytes_key("cache_bytes", optional, &Hardware::cache_bytes),
      number_key("fetch_bytes_per_second", optional, &Hardware::fetch_bytes_per_second, kRates),
      curve_key("link_to_device", required, &Hardware::link_to_device),
      curve_key("link_to_host", required, &Hardware::link_to_host),
      number_key("link_both_ways", optional, &Hardware::link_both_ways, kParts),
      {"gpus_per_link", optional, set_gpus_per_link,
       [](const Hardware& h) { return std::to_string(h.gpus_per_link); }},
      number_key("host_bandwidth", optional, &Hardware::host_bandwidth, kRates),
      {"peer_to_peer", optional, set_peer_to_peer,
       [](const Hardware& h) { return h.peer_to_peer ? "true" : "false"; }},
      curve_key("ici", optional, &Hardware::ici),
      {"ici_links", optional, set_ici_links,
       [](const Hardware& h) { return curve_text(h.ici_links); }},
      number_key("ici_hop_seconds", optional, &Hardware::ici_hop_seconds, kHopSeconds),
      curve_key("dcn", optional, &Hardware::dcn),
      number_key("dcn_hop_seconds", optional, &Hardware::dcn_hop_seconds, kHopSeconds),
      number_key("dcn_contention", optional, &Hardware::dcn_contention, kContention),
      {"kernels_beside_dcn", optional,
       [](const Setting& setting, Hardware& h) { h.kernels_beside_dcn = number(setting, kParts); },
       [](const Hardware& h) {
         return h.kernels_beside_dcn < 1 ? number_text(h.kernels_beside_dcn) : "";
       }},
  };
  return keys;
}

// All values of WORK.
const std::set<std::string>& works() {
  static const std::set<std::string> works = [] {
    std::set<std::string> bare, all;
    for (const models::Op* op : models::all_ops()) {
      bare.insert(op->name);
      if (op->variant.name) bare.insert(op->variant.name);
    }
    for (models::OpClass op_class : models::kOpClasses) bare.insert(name(op_class));
    for (const std::string& work : bare)
      for (const char* prefix : {"", "host."})
        for (const char* suffix : {"", ".f32", ".bf16"}) all.insert(prefix + work + suffix);
    return all;
  }();
  return works;
}

const std::string kFlops = "flops_per_second.", kBytes = "bytes_per_second.";

[[noreturn]] void refuse_unknown(const Setting& setting) {
  std::vector<std::string> expected;
  for (const ProfileKey& key : profile_keys()) expected.push_back(key.name);
  std::vector<std::string> known = expected;
  for (const std::string& work : works())
    for (const std::string& kind : {kFlops, kBytes}) known.push_back(kind + work);
  for (const std::string& kind : {kFlops, kBytes}) expected.push_back(kind + "WORK");
  throw ConfigError(setting.origin + ": found an unknown key, '" + excerpt(setting.key) +
                    "', expected one of " + join(expected) +
                    nearest_help(nearest(setting.key, known)));
}

void set_rate(const Setting& setting, Hardware& hardware) {
  for (auto [kind, rates] : {std::pair{kFlops, &hardware.flops_per_second},
                             std::pair{kBytes, &hardware.bytes_per_second}}) {
    if (!setting.key.starts_with(kind)) continue;
    const std::string work = setting.key.substr(kind.size());
    if (!works().contains(work)) break;
    (*rates)[work] = curve(setting);
    return;
  }
  refuse_unknown(setting);
}

void set(const Setting& setting, Hardware& hardware) {
  const auto key = std::ranges::find(profile_keys(), setting.key, &ProfileKey::name);
  if (key != profile_keys().end())
    key->set(setting, hardware);
  else
    set_rate(setting, hardware);
}

// Throws if there is no rate for a class of ops: kernels without one would take no time.
void require_rates(const Hardware& hardware, const std::string& file) {
  for (const auto& [kind, rates, work] : {std::tuple{kFlops, &hardware.flops_per_second, "matmul"},
                                          {kFlops, &hardware.flops_per_second, "attention"},
                                          {kBytes, &hardware.bytes_per_second, "memory"},
                                          {kBytes, &hardware.bytes_per_second, "host.memory"}})
    if (!has_rate(*rates, work, Dtype::bfloat16) && !has_rate(*rates, work, Dtype::float32))
      throw ConfigError(file + ": found no " + kind + work +
                        ", which every profile needs, as it stands or for .bf16 or .f32");
}

// Twice the peak is beyond what a measurement may be off by.
void require_rates_below_peak(const Hardware& hardware, const std::string& file) {
  for (const auto& [work, rates] : hardware.flops_per_second) {
    if (work.starts_with("host.")) continue;
    const bool is_float32 = work.ends_with(".f32");
    const Dtype dtype = is_float32 ? Dtype::float32 : Dtype::bfloat16;
    const auto known = hardware.peak_flops_per_second.find(dtype);
    if (known == hardware.peak_flops_per_second.end()) continue;
    const double peak = known->second;
    for (const auto& [size, rate] : rates.points())
      if (rate > 2 * peak)
        throw ConfigError(fmt::format(
            "{}: {}{}: found {}, expected at most twice the peak_flops_per_second.{} of {}", file,
            kFlops, work, number_text(rate), models::name(dtype), number_text(peak)));
  }
}

}  // namespace

bool has_rate(const std::map<std::string, offload::RateCurve>& rates, const std::string& work,
              models::Dtype dtype) {
  return rates.contains(work) || rates.contains(work + "." + models::name(dtype));
}

Hardware parse_hardware(std::string_view text, const std::string& file, const std::string& name) {
  Hardware hardware{.name = name};
  std::set<std::string> given;
  for (const Setting& setting : parse_yaml_settings(text, file)) {
    set(setting, hardware);
    given.insert(setting.key);
  }
  for (const ProfileKey& key : profile_keys())
    if (key.presence == required && !given.contains(key.name))
      throw ConfigError(file + ": found no " + key.name + ", which every profile needs");
  require_rates(hardware, file);
  require_rates_below_peak(hardware, file);
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
  const fs::path path = is_path(name_or_file)
                            ? fs::path(name_or_file)
                            : configs_directory / "hardware" / (name_or_file + ".yml");
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    const std::vector<std::string> names = hardware_names(configs_directory);
    throw KeyError(
        "hardware",
        "found '" + excerpt(name_or_file) + "', expected a file or one of " + join(names) +
            nearest_help(nearest(name_or_file, names)) +
            (name_or_file == "this_machine" ? " (plan --measure makes this_machine)" : ""));
  }
  return parse_hardware(read_yaml_file(path, path_text(path)), path_text(path),
                        printable(path.stem().native()));
}

std::string text(const Hardware& hardware) {
  std::string result;
  auto line = [&](const std::string& key, const std::string& value) {
    result += key + ": " + value + "\n";
  };
  for (const ProfileKey& key : profile_keys())
    if (const std::string value = key.text(hardware); !value.empty()) line(key.name, value);
  for (const auto& [work, curve] : hardware.flops_per_second)
    line(kFlops + work, curve_text(curve));
  for (const auto& [work, curve] : hardware.bytes_per_second)
    line(kBytes + work, curve_text(curve));
  return result;
}

}  // namespace longshore::trainer
