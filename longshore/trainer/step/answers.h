// The answers of a batch, as a preference is about them, and how the model rates them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "longshore/data/rows/batch.h"
#include "longshore/models/families/decoder.h"

namespace longshore::trainer {

// A sequence with targets, at its place among a batch's [B,T] (see sequence_log_probs.h).
struct Answer {
  int64_t place = 0;
  int64_t begin = 0, end = 0;  // its positions, prompt included
  int64_t tokens = 0;          // that are trained

  bool is_chosen(int64_t length) const { return place % length % 2 == 0; }
};

std::vector<Answer> answers_of(const data::Batch& batch);

// Sums over answers, from which means over a step follow.
struct Rewards {
  double chosen = 0, rejected = 0;                      // rewards
  double chosen_log_probs = 0, rejected_log_probs = 0;  // of whole answers
  double correct = 0;  // pairs of which the chosen answer has the larger reward
  double chosen_answers = 0, rejected_answers = 0, pairs = 0;

  static constexpr int kCount = 8;
  std::span<double, kCount> values() { return std::span<double, kCount>(&chosen, kCount); }

  double mean_chosen() const { return mean(chosen, chosen_answers); }
  double mean_rejected() const { return mean(rejected, rejected_answers); }
  double margin() const { return mean_chosen() - mean_rejected(); }
  double accuracy() const { return mean(correct, pairs); }
  double mean_chosen_log_probs() const { return mean(chosen_log_probs, chosen_answers); }
  double mean_rejected_log_probs() const { return mean(rejected_log_probs, rejected_answers); }

 private:
  static double mean(double sum, double count) { return count > 0 ? sum / count : 0; }
};

// Adds those of a batch, of which the policy's log-probabilities are given by place, and of an
// objective with a reference that's. The reward of an answer is beta times how much more likely it
// is than to the reference; without one, beta times the log-probability of its mean token, or where
// lengths are not normalised of all of it.
void add_rewards(const models::PreferenceObjective& objective, const data::Batch& batch,
                 std::span<const float> log_probs, std::span<const float> reference,
                 Rewards& rewards);

}  // namespace longshore::trainer
