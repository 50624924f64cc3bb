#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
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

// The last so many parts of a path.
std::string last_parts(const fs::path& path, int64_t count) {
  fs::path last;
  const int64_t all = std::distance(path.begin(), path.end());
  for (auto part = std::next(path.begin(), std::max<int64_t>(all - count, 0)); part != path.end();
       ++part)
    last /= *part;
  return last.string();
}

// Folders of one name are told apart by those that they are in.
void give_distinct_names(std::vector<RunRecords>& runs) {
  std::vector<fs::path> folders;
  for (const RunRecords& run : runs) {
    folders.push_back(fs::canonical(run.folder()));
    if (std::ranges::count(folders, folders.back()) > 1)
      throw ConfigError("RUN: found the folder " + path_text(run.folder()) +
                        " twice, expected different ones");
  }
  const auto has_name_of_another = [&](const RunRecords& run) {
    return std::ranges::count(runs, run.name(), &RunRecords::name) > 1;
  };
  for (int64_t parts = 2; std::ranges::any_of(runs, has_name_of_another); ++parts)
    for (size_t i = 0; i < runs.size(); ++i) runs[i].set_name(last_parts(folders[i], parts));
}

void report(const Request& request) {
  require_place_for("--html", request.html);
  // Or it might take the place of what is read.
  if (!request.html.empty() && !request.html.ends_with(".html"))
    throw ConfigError("--html: found " + excerpt(request.html) +
                      ", expected a name that ends in .html");
  std::vector<RunRecords> runs;
  for (const std::string& run : request.runs) runs.emplace_back(run);
  give_distinct_names(runs);
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
