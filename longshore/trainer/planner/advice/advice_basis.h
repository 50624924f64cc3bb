// An AdviceBasis holds what all advice on a config compares with: its plan, what that leaves of the
// machine, and the times of trials.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "longshore/trainer/planner/room.h"
#include "longshore/trainer/planner/step_trial.h"

namespace longshore::trainer {

// A change of the plan, or none, with its times on the machine.
struct Trial {
  StepTrial plans;
  StepTimes times;
};

// Lines are printed in the order of their ranks.
enum class AdviceRank {
  policy,   // policies that are faster
  gain,     // the gain or loss by a change, or by what the config already has
  no_room,  // changes that do not fit
  home,     // the cost of new homes
};

struct AdviceLine {
  AdviceRank rank = AdviceRank::gain;
  double gain = 0;  // seconds of a step; within a rank, the largest gain comes first
  std::string text;
};

// Answered in parallel.
using AdviceQuestion = std::function<std::vector<AdviceLine>()>;

// Of a run that has a profile. It keeps references to plans and room.
class AdviceBasis {
 public:
  AdviceBasis(const RunSpec& spec, const TrainingPlans& plans, const Room& room);

  const RunSpec& spec() const { return spec_; }
  const Config& config() const { return spec_.config(); }
  const TrainingPlans& plans() const { return plans_; }
  const offload::Hardware& hardware() const { return *spec_.hardware(); }
  bool fits() const { return room_.fits(); }
  const Trial& own() const { return own_; }  // of the config's own plan
  // Of the config's own plan, which may be longer than what own() simulates.
  double whole_step_seconds() const;

  Trial trial(const StepOptions& options, const offload::LayoutOptions& layout) const;
  MemoryByKind memory(const StepOptions& options) const { return trials_.memory(options); }
  Room room_for(const MemoryByKind& memory) const;

  bool is_negligible(double gain) const;
  std::string percent_of_step(double seconds) const;
  // What is said of a gain that may turn out to be none.
  const char* doubt(double gain) const;
  // "save 3.2 % of a step", with the verb's ending.
  std::string effect(double gain, const char* ending) const;
  // A setting with which the step takes `after` seconds instead of `before`, as a command line has
  // it.
  AdviceLine setting(AdviceRank rank, const std::string& settings, double before, double after,
                     const std::string& why) const;
  // A change that takes more than there is.
  static AdviceLine no_room(const std::string& text, const Room& room);

 private:
  const RunSpec spec_;
  const TrainingPlans& plans_;
  const Room& room_;
  StepTrials trials_;
  Trial own_;
};

}  // namespace longshore::trainer
