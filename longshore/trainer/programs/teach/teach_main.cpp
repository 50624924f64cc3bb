#include <string>

#include "longshore/base/program.h"
#include "longshore/base/progress.h"
#include "longshore/trainer/config/help.h"
#include "longshore/trainer/distributed/launch.h"
#include "longshore/trainer/programs/teach/teach.h"

int main(int argc, char** argv) {
  using namespace longshore;
  // What starts it is tokenize, by whose name it goes.
  CLI::App app(
      "Writes a token file once more, with what a teacher finds most likely at each of its tokens. "
      "objective: distill learns from it.",
      "tokenize");
  trainer::TeachRequest request;
  app.add_option("--teacher", request.teacher, "a folder with config.json and weights")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--top-k", request.top_k, "so many tokens each time, at most 256")
      ->capture_default_str();
  app.add_option("--out", request.out, "token file to write")->required();
  app.add_option("INPUT", request.tokens, "token file of documents, as tokenize --out writes them")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_flag_callback("--quiet", show_no_progress, kQuietHelp);
  app.add_option("key=value", request.overrides, "keys, as listed below");
  app.footer(trainer::teach_footer());
  return run_program(
      app, argc, argv,
      [&] {
        trainer::require_one_process("tokenize --teacher");
        trainer::teach(request);
      },
      trainer::meant_key);
}
