// sequence_log_probs adds up the losses of each sequence's tokens: the log-probability of what it
// answers.
#pragma once

#include "longshore/models/ir/trace.h"

namespace longshore::models {

// (token losses [B,T], targets i32 [B,T], segments i32 [B,T]) -> log-probabilities [B,T], counts
// [B,T], both in the losses' dtype. A row has at most T sequences, each in one run: that of segment
// s, counted from 1, has place s - 1; places that are left over have 0. Targets that are
// kIgnoredTarget count nothing. Counts have no gradient.
extern const Op sequence_log_probs_op;
// (d log-probabilities [B,T], targets, segments) -> d token losses [B,T]
extern const Op sequence_log_probs_grad_op;

struct SequenceLogProbs {
  Var sums, counts;
};

SequenceLogProbs sequence_log_probs(Var losses, Var targets, Var segments);

}  // namespace longshore::models
