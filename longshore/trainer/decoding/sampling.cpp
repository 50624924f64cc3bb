#include "longshore/trainer/decoding/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/philox.h"

namespace longshore::trainer {
namespace {

struct Candidate {
  float logit = 0;
  int32_t token = 0;
  double weight = 0;  // its probability, times the sum of all weights
};

bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

double sum_of_weights(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  return sum;
}

void keep_top_k(std::vector<Candidate>& candidates, int64_t k) {
  if (k == 0 || k >= std::ssize(candidates)) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), is_likelier);
  candidates.resize(static_cast<size_t>(k));
}

void keep_top_p(std::vector<Candidate>& candidates, double p) {
  if (p >= 1) return;
  const double all = sum_of_weights(candidates);
  // Those below this weight have no more than 1 - p together, so that the others are enough, and
  // few enough to be sorted.
  const double least = (1 - p) * all / static_cast<double>(candidates.size());
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < least; });
  std::sort(candidates.begin(), candidates.end(), is_likelier);
  double sum = 0;
  size_t count = 0;
  while (count < candidates.size() && sum < p * all) sum += candidates[count++].weight;
  candidates.resize(count);
}

// Uniform in [0, 1).
double uniform(uint64_t seed, int64_t index) {
  const PhiloxBlock random = philox(seed, RandomUse::sampling, 0, static_cast<uint64_t>(index));
  const uint64_t bits = uint64_t{random[0]} << 32 | random[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Not that something is out of bounds: NaN is within none.
void check(const Sampling& sampling) {
  const bool is_valid = sampling.temperature >= 0 && std::isfinite(sampling.temperature) &&
                        sampling.top_k >= 0 && sampling.top_p > 0 && sampling.top_p <= 1;
  if (!is_valid)
    throw InternalError(
        fmt::format("found temperature {}, top_k {} and top_p {}, expected numbers "
                    "from 0 on, and top_p above 0 and at most 1",
                    sampling.temperature, sampling.top_k, sampling.top_p));
}

}  // namespace

int32_t choose_token(std::span<const float> logits, const Sampling& sampling, int64_t index) {
  check(sampling);
  if (logits.empty()) throw InternalError("no logits to choose a token by");
  for (size_t token = 0; token < logits.size(); ++token)
    if (!std::isfinite(logits[token]))
      throw NonFiniteLogit(
          fmt::format("the logit of token {} is {}, not a finite number", token, logits[token]));
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (sampling.temperature == 0) return static_cast<int32_t>(largest - logits.begin());

  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t token = 0; token < logits.size(); ++token)
    candidates.push_back({.logit = logits[token], .token = static_cast<int32_t>(token)});
  keep_top_k(candidates, sampling.top_k);
  for (Candidate& c : candidates) c.weight = std::exp((c.logit - *largest) / sampling.temperature);
  keep_top_p(candidates, sampling.top_p);

  double left = uniform(sampling.seed, index) * sum_of_weights(candidates);
  for (const Candidate& c : candidates)
    if ((left -= c.weight) < 0) return c.token;
  return candidates.back().token;
}

}  // namespace longshore::trainer
