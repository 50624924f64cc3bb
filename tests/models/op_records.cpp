#include "tests/models/op_records.h"

#include <gtest/gtest.h>

#include <utility>

namespace longshore::models {

// Each in the file of its name in tests/models/ops/.
extern const OpRecord linear_record, rms_norm_record, rope_record, attention_record,
    cached_attention_record, swiglu_record, gelu_record, add_record, add_bias_record, scale_record,
    soft_cap_record, sum_record, mean_square_error_record, l2_penalty_record, embedding_record,
    linear_cross_entropy_record, square_sum_record, update_record, layer_norm_record, rows_record,
    average_pool_record;

namespace {

// In the order in which cases run.
constexpr const OpRecord* kRecords[] = {
    &linear_record,
    &rms_norm_record,
    &rope_record,
    &attention_record,
    &cached_attention_record,
    &swiglu_record,
    &gelu_record,
    &add_record,
    &add_bias_record,
    &scale_record,
    &soft_cap_record,
    &sum_record,
    &mean_square_error_record,
    &l2_penalty_record,
    &embedding_record,
    &linear_cross_entropy_record,
    &square_sum_record,
    &update_record,
    &layer_norm_record,
    &rows_record,
    &average_pool_record,
};

std::vector<OpCase> collect(std::vector<OpCase> (*OpRecord::*cases)()) {
  std::vector<OpCase> all;
  for (const OpRecord* record : kRecords)
    if (record->*cases)
      for (OpCase& op_case : (record->*cases)()) all.push_back(std::move(op_case));
  return all;
}

const OpTraits* find(const Op& op) {
  for (const OpRecord* record : kRecords)
    for (const OpTraits& traits : record->ops)
      if (traits.op == &op) return &traits;
  return nullptr;
}

}  // namespace

std::vector<OpCase> small_cases() { return collect(&OpRecord::small); }
std::vector<OpCase> large_cases() { return collect(&OpRecord::large); }
std::vector<OpCase> real_cases() { return collect(&OpRecord::real); }

const OpTraits& traits_of(const Op& op) {
  static const OpTraits none{};
  const OpTraits* found = find(op);
  if (!found) ADD_FAILURE() << op.name << " has no record in tests/models/ops/";
  return found ? *found : none;
}

const Tolerance& tolerance_of(const Op& op) { return traits_of(op).tolerance; }

Kernel emulated_kernel(const Op& op, Emulated emulated) {
  const OpTraits* found = find(op);
  return {found ? found->emulated.of(emulated) : nullptr, op.cuda.workspace_bytes};
}

}  // namespace longshore::models
