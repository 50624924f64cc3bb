#include "longshore/trainer/run/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/trainer/step/inputs.h"

namespace longshore::trainer {
namespace {

// Writes them as files for probe --inputs and returns the names of the files.
std::string dump_batches(const std::filesystem::path& folder, int64_t step,
                         const std::vector<data::Batch>& batches) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // if it is not there, writing says so
  std::string files;
  for (size_t i = 0; i < batches.size(); ++i) {
    const std::string part = batches.size() > 1 ? fmt::format("-micro-batch-{}", i) : "";
    const std::filesystem::path file =
        folder / fmt::format("non-finite-step-{}{}.safetensors", step, part);
    write_probe_inputs(file, batches[i]);
    files += (files.empty() ? "" : ", ") + path_text(file);
  }
  return files;
}

}  // namespace

std::string memory_account(const offload::Ledger& ledger, const MemoryByKind& planned) {
  std::string text;
  for (offload::MemoryKind kind : offload::kMemoryKinds) {
    const offload::MemoryAnalysis& plan = planned[kind];
    if (plan.peak_bytes == 0) continue;
    text +=
        fmt::format("  {:<13} alive {} ({}), planned {} ({})\n", offload::name(kind),
                    offload::bytes_text(ledger.now_bytes(kind)), categories_text(ledger.now(kind)),
                    offload::bytes_text(plan.peak_bytes), categories_text(plan.by_category));
  }
  return text;
}

std::string NonFiniteSteps::account(const StepMetrics& step,
                                    const std::vector<data::Batch>& micro_batches) {
  const bool has_auxiliary = std::isfinite(step.auxiliary_loss);
  if (std::isfinite(step.loss) && std::isfinite(step.gradient_norm) && has_auxiliary) return "";
  constexpr int64_t kMaxDumps = 10;
  std::string text =
      fmt::format("step {}: loss {}, grad_norm {}", step.step, without_sign_of_nan(step.loss),
                  without_sign_of_nan(step.gradient_norm));
  if (!has_auxiliary)
    text += fmt::format(", auxiliary loss {}", without_sign_of_nan(step.auxiliary_loss));
  if (++count_ <= kMaxDumps) try {
      text += fmt::format(
          "; its batch, for probe --inputs{}: {}",
          objective_ == Objective::sft ? "" : ", which takes the cross-entropy of its tokens",
          dump_batches(folder_, step.step, micro_batches));
    } catch (const FileError& error) {
      text += std::string("; its batch is lost: ") + error.what();
    }
  return text;
}

}  // namespace longshore::trainer
