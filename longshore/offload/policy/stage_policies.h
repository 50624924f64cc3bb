// StagePolicies says which policy each layer of a model's scans follows. Stages that run once keep
// what their backward pass reads.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "longshore/offload/policy/policy.h"

namespace longshore::offload {

// Of one scan.
struct StagePolicy {
  Policy first;  // of the first layers
  // How many those are; by default all but the last, whose values are wanted at once.
  std::optional<int> offload_layers;
  // Of the other layers; by default they keep on the device what `first` offloads.
  std::optional<Policy> others;

  bool offloads() const { return first.offloads() || (others && others->offloads()); }
};

// Of a model's scans. A policy by itself is that of all.
struct StagePolicies {
  StagePolicy all;                              // of the scans that are not in by_stage
  std::map<std::string, StagePolicy> by_stage;  // by the stage's name

  StagePolicies() = default;
  StagePolicies(Policy policy) : all{std::move(policy), {}, {}} {}
  StagePolicies(StagePolicy policy) : all(std::move(policy)) {}

  const StagePolicy& of(const std::string& stage) const {
    const auto own = by_stage.find(stage);
    return own == by_stage.end() ? all : own->second;
  }
  bool offloads() const {
    for (const auto& [stage, policy] : by_stage)
      if (policy.offloads()) return true;
    return all.offloads();
  }
};

}  // namespace longshore::offload
