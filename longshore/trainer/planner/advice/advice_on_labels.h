// ask_about_labels() asks what a step would gain if the values of a label had another action.
#pragma once

#include <vector>

#include "longshore/offload/policy/partition.h"
#include "longshore/trainer/planner/advice/advice_basis.h"

namespace longshore::trainer {

// The questions of one kind of layer. They read `basis` when they are answered.
std::vector<AdviceQuestion> ask_about_labels(const AdviceBasis& basis,
                                             const offload::Partition& partition);

}  // namespace longshore::trainer
