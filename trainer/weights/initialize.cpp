#include "trainer/weights/initialize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/bfloat16.h"
#include "base/philox.h"

namespace longshore::trainer {
namespace {

using offload::Copy;
using offload::Parameter;
using offload::Slab;

// Two normal numbers from two uniform ones (Box & Muller 1958).
void normal_pair(uint32_t a, uint32_t b, float* to, int64_t room, double deviation) {
  double radius = std::sqrt(-2 * std::log((a + 0.5) / 4294967296.0)) * deviation;
  double angle = 2 * std::numbers::pi * ((b + 0.5) / 4294967296.0);
  to[0] = static_cast<float>(radius * std::cos(angle));
  if (room > 1) to[1] = static_cast<float>(radius * std::sin(angle));
}

float uniform_number(uint32_t random, double bound) {
  return static_cast<float>(((random + 0.5) / 2147483648.0 - 1) * bound);
}

bool is_weight(Copy copy) { return copy == Copy::compute || copy == Copy::master; }

// Of the part that is held, in the copy's own dtype: weights as they are filled and the rest zero.
std::vector<std::byte> contents(const Slab& slab, Copy copy, std::span<const float> weights) {
  std::vector<std::byte> contents(bytes(slab, copy));
  if (!is_weight(copy)) return contents;
  if (dtype(slab, copy) == models::Dtype::float32) {
    std::memcpy(contents.data(), weights.data(), contents.size());
  } else {
    auto* narrow = reinterpret_cast<bfloat16*>(contents.data());
    std::transform(weights.begin(), weights.end(), narrow,
                   [](float value) { return to_bfloat16(value); });
  }
  return contents;
}

}  // namespace

void initial_values(const Parameter& parameter, uint64_t seed, std::span<float> values) {
  int64_t count = std::ssize(values);
  float* to = values.data();
  const auto [kind, deviation] = parameter.weight.init;
  using enum models::Init::Kind;
  if (kind == ones || kind == zeros) {
    std::fill_n(to, count, kind == ones ? 1.f : 0.f);
    return;
  }
  // Parameters are told apart by name, not by their place.
  uint32_t sequence = random_sequence(parameter.name);
#pragma omp parallel for
  for (int64_t i = 0; i < count; i += 4) {
    PhiloxBlock random = philox(seed, RandomUse::kInitialWeights, sequence, i / 4);
    if (kind == uniform) {
      for (int64_t j = i; j < std::min(i + 4, count); ++j)
        to[j] = uniform_number(random[j - i], deviation);
      continue;
    }
    normal_pair(random[0], random[1], to + i, count - i, deviation);
    if (i + 2 < count) normal_pair(random[2], random[3], to + i + 2, count - i - 2, deviation);
  }
}

void write_parameters(const offload::ParameterLayout& layout, const FillParameter& fill,
                      offload::Arguments& arguments, std::span<const Copy> copies) {
  for (const Slab& slab : layout.slabs) {
    std::vector<float> weights(slab.count, 0.f);
    for (const Parameter& parameter : slab.parameters)
      fill(parameter,
           {weights.data() + parameter.offset, static_cast<size_t>(parameter.type.shape.count())});
    for (Copy copy : copies) {
      if (copy == Copy::gradient || !slab.has(copy)) continue;
      std::string name = argument_name(slab, copy);
      arguments.at(name, bytes(slab, copy), layout.homes.of(copy), category(copy));
      const std::span<const float> held(weights.data() + slab.begin, slab.end - slab.begin);
      arguments.write(name, contents(slab, copy, held).data(), bytes(slab, copy));
    }
  }
}

void initialize(const offload::ParameterLayout& layout, uint64_t seed,
                offload::Arguments& arguments) {
  write_parameters(
      layout,
      [&](const Parameter& parameter, std::span<float> values) {
        initial_values(parameter, seed, values);
      },
      arguments);
}

}  // namespace longshore::trainer
