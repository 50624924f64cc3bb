#include "trainer/initialize.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/philox.h"
#include "models/ops/simd.h"

namespace longshore::trainer {
namespace {

using offload::Copy;
using offload::Parameter;
using offload::Slab;

// 32-bit FNV-1a: parameters are told apart by name, not by their place.
uint32_t name_hash(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : name) hash = (hash ^ c) * 16777619u;
  return hash;
}

// Two normal numbers from two uniform ones (Box & Muller 1958).
void normal_pair(uint32_t a, uint32_t b, float* to, int64_t room, double deviation) {
  double radius = std::sqrt(-2 * std::log((a + 0.5) / 4294967296.0)) * deviation;
  double angle = 2 * std::numbers::pi * ((b + 0.5) / 4294967296.0);
  to[0] = static_cast<float>(radius * std::cos(angle));
  if (room > 1) to[1] = static_cast<float>(radius * std::sin(angle));
}

void fill(const Parameter& parameter, uint64_t seed, float* values) {
  int64_t count = parameter.type.shape.count();
  const models::Init& init = parameter.weight.init;
  if (init.kind != models::Init::Kind::normal) {
    std::fill_n(values, count, init.kind == models::Init::Kind::ones ? 1.f : 0.f);
    return;
  }
  uint32_t sequence = name_hash(parameter.name);
#pragma omp parallel for
  for (int64_t i = 0; i < count; i += 4) {
    PhiloxBlock random = philox(seed, RandomUse::kInitialWeights, sequence, i / 4);
    normal_pair(random[0], random[1], values + i, count - i, init.deviation);
    if (i + 2 < count)
      normal_pair(random[2], random[3], values + i + 2, count - i - 2, init.deviation);
  }
}

void write(offload::Arguments& arguments, const Slab& slab, Copy copy, const void* values) {
  bool moment = copy == Copy::first_moment || copy == Copy::second_moment;
  arguments.at(argument_name(slab, copy), bytes(slab, copy), offload::MemoryKind::device,
               moment ? offload::Category::optimizer : offload::Category::parameters);
  arguments.write(argument_name(slab, copy), values, bytes(slab, copy));
}

}  // namespace

void initialize(const offload::ParameterLayout& layout, uint64_t seed,
                offload::Arguments& arguments) {
  for (const Slab& slab : layout.slabs) {
    std::vector<float> values(slab.count, 0.f);
    for (const Parameter& parameter : slab.parameters)
      fill(parameter, seed, values.data() + parameter.offset);
    if (slab.dtype == models::Dtype::float32) {
      write(arguments, slab, Copy::compute, values.data());
    } else {
      std::vector<models::bfloat16> narrow(slab.count);
      for (int64_t i = 0; i < slab.count; ++i) models::store(narrow[i], values[i]);
      write(arguments, slab, Copy::compute, narrow.data());
    }
    if (slab.trainable == models::Trainable::no) continue;
    if (slab.has_master()) write(arguments, slab, Copy::master, values.data());
    std::fill(values.begin(), values.end(), 0.f);
    write(arguments, slab, Copy::first_moment, values.data());
    write(arguments, slab, Copy::second_moment, values.data());
  }
}

}  // namespace longshore::trainer
