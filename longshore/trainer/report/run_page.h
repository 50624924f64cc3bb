// run_page() shows a run, or several above each other, as a page: what was learnt and how fast,
// what memory holds, what each lane does in a step, the config with its origins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longshore/trainer/report/html_page.h"
#include "longshore/trainer/report/run_records.h"

namespace longshore::trainer {

// A run that goes on, as the process that trains sees it.
struct LiveRun {
  std::string at;  // the time, "2026-11-05 10:21:07"
};
LiveRun live_now();

std::string run_page(const RunRecords& run, const std::optional<LiveRun>& live);
// Their curves in the same charts, and what differs in keys and results. Names are the folders'.
std::string runs_page(const std::vector<RunRecords>& runs);

// A row for each key whose value is not the same in all of them; "" where a run has no such key.
Table differing_keys(const std::vector<RunRecords>& runs);
// A row for each result that one of them has.
Table results(const std::vector<RunRecords>& runs);

}  // namespace longshore::trainer
