// What is said and kept when a step goes wrong.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "data/batches.h"
#include "offload/memory.h"
#include "trainer/step/memory_report.h"

namespace longshore::trainer {

// Whether memory was refused: by our backends, by the C++ library, or by a library that says so.
bool is_out_of_memory(const std::exception& error);

// What is taken now beside what was planned, kind by kind and category by category.
std::string memory_account(const offload::Ledger& ledger, const MemoryByKind& planned);

// Writes each micro-batch of a step into `folder` as a file for probe --inputs, and says where.
std::string dump_batches(const std::filesystem::path& folder, int64_t step,
                         const std::vector<data::Batch>& batches);

}  // namespace longshore::trainer
