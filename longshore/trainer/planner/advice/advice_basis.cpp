#include "longshore/trainer/planner/advice/advice_basis.h"

#include <fmt/format.h>

#include <cmath>

#include "longshore/trainer/step/estimate.h"

namespace longshore::trainer {
namespace {

// A part of the step time: smaller gains have turned out to be losses on real machines.
constexpr double kReliableGain = 0.04;
// A part of the step time: smaller gains are printed as 0.0 %.
constexpr double kNegligibleGain = 0.0005;

}  // namespace

AdviceBasis::AdviceBasis(const RunSpec& spec, const TrainingPlans& plans, const Room& room)
    : spec_(spec),
      plans_(plans),
      room_(room),
      trials_(spec_, plans),
      own_(trial(plans.options, layout_options(config()))) {}

double AdviceBasis::whole_step_seconds() const {
  return estimate(plans_.step, hardware()).step_seconds;
}

Trial AdviceBasis::trial(const StepOptions& options, const offload::LayoutOptions& layout) const {
  StepTrial plans = trials_.plan(options, layout);
  const StepTimes times = plans.times(hardware());
  return {std::move(plans), times};
}

Room AdviceBasis::room_for(const MemoryByKind& memory) const {
  return room(memory, hardware(), memory_limits(config()));
}

bool AdviceBasis::is_negligible(double gain) const {
  return std::abs(gain) < kNegligibleGain * own_.times.step;
}

std::string AdviceBasis::percent_of_step(double seconds) const {
  return fmt::format("{:.1f} % of a step", 100 * std::abs(seconds) / own_.times.step);
}

const char* AdviceBasis::doubt(double gain) const {
  return gain < kReliableGain * own_.times.step ? "; less than 4 %: measure it" : "";
}

std::string AdviceBasis::effect(double gain, const char* ending) const {
  if (is_negligible(gain)) return fmt::format("make{} no difference", ending);
  return fmt::format("{}{} {}", gain > 0 ? "save" : "cost", ending, percent_of_step(gain));
}

AdviceLine AdviceBasis::setting(AdviceRank rank, const std::string& settings, double before,
                                double after, const std::string& why) const {
  const double gain = before - after;
  return {.rank = rank,
          .gain = gain,
          .text = fmt::format("{} would save {}, to {:.4f} s: {}{}", settings,
                              percent_of_step(gain), after, why, doubt(gain))};
}

AdviceLine AdviceBasis::no_room(const std::string& text, const Room& room) {
  return {.rank = AdviceRank::no_room,
          .text = text + " " + offload::bytes_text(missing_bytes(room)) + " more than there is"};
}

}  // namespace longshore::trainer
