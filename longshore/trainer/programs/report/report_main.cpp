#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/base/print.h"
#include "longshore/base/printable.h"
#include "longshore/base/program.h"
#include "longshore/trainer/config/run_files.h"
#include "longshore/trainer/report/run_page.h"
#include "longshore/trainer/report/text_table.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;

struct Request {
  std::vector<std::string> runs;
  std::string html;
};

// As tables and curves call them.
void require_distinct_names(const std::vector<RunRecords>& runs) {
  std::set<std::string> names;
  for (const RunRecords& run : runs)
    if (!names.insert(run.name()).second)
      throw ConfigError("RUN: found two folders with the name " + excerpt(run.name()) +
                        ", expected different ones");
}

void report(const Request& request) {
  require_place_for("--html", request.html);
  // Or it might take the place of what is read.
  if (!request.html.empty() && !request.html.ends_with(".html"))
    throw ConfigError("--html: found " + excerpt(request.html) +
                      ", expected a name that ends in .html");
  std::vector<RunRecords> runs;
  for (const std::string& run : request.runs) runs.emplace_back(run);
  require_distinct_names(runs);
  const fs::path file = !request.html.empty() ? fs::path(request.html)
                        : runs.size() == 1    ? runs[0].folder() / kReportFile
                                              : fs::path(kReportFile);
  for (const RunRecords& run : runs)
    for (const auto& [name, trouble] : run.troubles())
      print(stderr, "warning: " + run.name() + ": " + trouble + "\n");
  print(stdout, text(results(runs)));
  if (const Table keys = differing_keys(runs); keys.size() > 1) print(stdout, "\n" + text(keys));
  write_file(file, runs.size() == 1 ? run_page(runs[0], {}) : runs_page(runs));
  print(stdout, "\n" + path_text(file) + "\n");
}

}  // namespace
}  // namespace longshore::trainer

int main(int argc, char** argv) {
  using namespace longshore;
  CLI::App app("Makes a page of one run, or of several above each other.", "report");
  trainer::Request request;
  app.add_option("RUN", request.runs, "folders of runs")->required();
  app.add_option("--html", request.html,
                 "the page; report.html, of one run in its folder, if nothing is given");
  return run_program(app, argc, argv, [&] { trainer::report(request); });
}
