#include "longshore/trainer/checkpoint/best_so_far.h"

#include <cmath>

namespace longshore::trainer {

bool note(BestSoFar& best, int64_t steps, double value, Better better, double threshold) {
  if (steps <= best.evaluated) return false;
  best.evaluated = steps;
  const bool is_first = best.step == 0;
  const double ahead = better == Better::smaller ? best.value - value : value - best.value;
  const bool is_best = std::isfinite(value) && (is_first || ahead > 0);
  const bool improves = is_best && (is_first || ahead > threshold);
  best.without_improvement = improves ? 0 : best.without_improvement + 1;
  if (is_best) {
    best.step = steps;
    best.value = value;
  }
  return is_best;
}

}  // namespace longshore::trainer
