// What runs leave, as tests of whole runs compare it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "longshore/trainer/config/run_files.h"
#include "tests/data/safetensors_samples.h"
#include "tests/trainer/run_program.h"

namespace longshore::trainer {

inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

// The records of a run's metrics.jsonl, of the keys that are named: what a clock or another plan
// decides is not.
inline std::vector<nlohmann::json> records_of(const std::filesystem::path& run,
                                              std::span<const char* const> keys) {
  std::istringstream lines(data::read_file(run / kMetricsFile));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    nlohmann::json& kept = records.emplace_back();
    for (const char* key : keys)
      if (record.contains(key)) kept[key] = record[key];
  }
  return records;
}

// That a run, which has ended, took the memory that plan says for the same command. Gives what plan
// printed; its JSON goes into the file `scratch`.
inline std::string expect_planned_memory(const std::string& train_command,
                                         const std::filesystem::path& run,
                                         const std::filesystem::path& scratch) {
  const std::string command = replaced(train_command, TRAIN_PROGRAM, PLAN_PROGRAM);
  const ProgramResult planned = run_program(command + " --no-advice --json " + scratch.string());
  EXPECT_EQ(planned.exit_code, 0) << planned.output;
  const nlohmann::json measured =
      nlohmann::json::parse(data::read_file(run / kSummaryFile))["memory"];
  const nlohmann::json predicted =
      nlohmann::json::parse(data::read_file(scratch))["plans"][0]["memory"];
  for (const char* kind : {"device", "pinned_host"})
    for (const auto& [key, value] : measured[kind].items())
      EXPECT_EQ(predicted[kind][key], value) << kind << " " << key;
  return planned.output;
}

}  // namespace longshore::trainer
