// The program of one update.
#pragma once

#include <string>

#include "longshore/models/ops/update/update.h"

namespace longshore::models {

struct UpdateFormats {
  Dtype weight = Dtype::float32;
  StateFormat states = StateFormat::float32;
  Dtype compute = Dtype::bfloat16;  // of the copy for computing; none where it is the weight's

  bool rounds() const { return weight == Dtype::bfloat16 || states != StateFormat::float32; }
};

// Its inputs are called gradient, weight, learning_rate, clip, and step where something is rounded;
// states, their scales and the rule's scalars as the rule says. With a float64 weight gradient and
// states are float64 too.
inline Program update_program(const Optimizer& optimizer, const UpdateFormats& formats,
                              int64_t count, const Rounding& rounding = {}) {
  const bool wide = formats.weight == Dtype::float64;
  const Type range{{count}, wide ? Dtype::float64 : Dtype::float32};
  const Type state = wide ? range : state_type(formats.states, count);
  const bool has_scales = formats.states == StateFormat::block8;
  Trace t("update");
  UpdateOperands at{.gradient = t.input("gradient", range),
                    .weight = t.input("weight", {{count}, formats.weight}),
                    .states = {},
                    .learning_rate = t.scalar("learning_rate"),
                    .scalars = {},
                    .clip = t.scalar("clip"),
                    .step = {}};
  for (const auto& [name, scale_name] : optimizer.rule->states)
    at.states.push_back(
        {t.input(name, state), has_scales ? t.input(scale_name, scale_type(count)) : Var{}});
  for (const char* name : optimizer.rule->scalars) at.scalars.push_back(t.scalar(name));
  if (formats.rounds()) at.step = t.scalar("step", Dtype::int32);
  for (Var out : update(optimizer, formats.compute, at, rounding)) t.output(out);
  return t.finish();
}

}  // namespace longshore::models
