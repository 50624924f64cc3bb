#include "longshore/data/images/resize_weights.h"

#include <algorithm>
#include <cmath>

#include "longshore/base/round_up.h"

namespace longshore::data {
namespace {

// Each computed in Pillow's order, since a sum of roundings decides in the end.
double bilinear(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

struct Filter {
  double (*weight)(double x);
  double reach;
};

Filter filter_of(Resample resample) {
  return resample == Resample::bilinear ? Filter{bilinear, 1} : Filter{bicubic, 2};
}

int64_t rounded(double x) { return static_cast<int64_t>(std::floor(x + 0.5)); }

int32_t in_fixed_point(double weight) {
  return static_cast<int32_t>(weight * (1 << kWeightBits) + (weight < 0 ? -0.5 : 0.5));
}

}  // namespace

ResizeWeights resize_weights(int64_t from, int64_t to, Resample resample, int64_t group) {
  const Filter filter = filter_of(resample);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0), reach = filter.reach * stretch;
  const int64_t most = std::min(from, static_cast<int64_t>(std::ceil(reach)) * 2 + 1);

  ResizeWeights result;
  result.stride = round_up(most, group);
  result.first.resize(static_cast<size_t>(to));
  result.weights.resize(static_cast<size_t>(to * result.stride));
  std::vector<double> window(static_cast<size_t>(most));
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t begin = std::max<int64_t>(rounded(center - reach), 0);
    const int64_t end = std::min(rounded(center + reach), from);
    double sum = 0;
    for (int64_t k = 0; k < end - begin; ++k) {
      const double distance = static_cast<double>(begin + k) - center + 0.5;
      window[static_cast<size_t>(k)] = filter.weight(distance * (1 / stretch));
      sum += window[static_cast<size_t>(k)];
    }
    const int64_t first = std::clamp<int64_t>(from - result.stride, 0, begin);
    result.first[static_cast<size_t>(i)] = first;
    int32_t* weights = result.weights.data() + i * result.stride + (begin - first);
    for (int64_t k = 0; k < end - begin; ++k) {
      const double weight = window[static_cast<size_t>(k)];
      weights[k] = in_fixed_point(sum != 0 ? weight / sum : weight);
    }
  }
  return result;
}

}  // namespace longshore::data
