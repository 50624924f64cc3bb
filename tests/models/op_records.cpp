#include "tests/models/op_records.h"

#include <gtest/gtest.h>

#include <utility>

namespace longshore::models {

// The build lists the files of tests/models/ops/, each with the record of its name.
#define RECORD(name) extern const OpRecord name##_record;
#include <op_records.inc>
#undef RECORD

namespace {

// In the order in which cases run.
constexpr const OpRecord* kRecords[] = {
#define RECORD(name) &name##_record,
#include <op_records.inc>
#undef RECORD
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
