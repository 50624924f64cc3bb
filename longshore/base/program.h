// run_program() parses a program's command line, runs the program and gives its exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "longshore/base/build.h"
#include "longshore/base/error.h"
#include "longshore/base/exit_code.h"
#include "longshore/base/print.h"
#include "longshore/base/refusals.h"
#include "longshore/base/standard_output.h"

namespace longshore {

// What may have been meant by an argument that is no option of a program, as one would write it; ""
// if nothing is like it.
using Meant = std::function<std::string(const std::string& argument)>;

// What is wrong with the arguments that `app` failed to parse. Of an argument that it does not know
// it gives what was `meant`, else the nearest option; unknown ones come before missing ones, since
// they often are those misspelled.
std::string wrong_arguments(const CLI::App& app, const CLI::ParseError& error, const Meant& meant);

// The option that was given an empty value, as by a variable of a shell that is not set, and not
// `may_be_empty`; "" if there is none. Programs take an empty value for an option not given.
std::string empty_option(const CLI::App& app, const CLI::Option* may_be_empty);

// What --help or --version shows, where one of them is among the arguments that `app` failed to
// parse, whatever else is; else "".
std::string text_asked_for(const CLI::App& app, const CLI::ParseError& error, int argc,
                           char** argv);

// Opens those of the standard streams that are closed, else files would get their numbers, and what
// is printed would go into them. They stay of no use: reading or writing them fails, as it should.
void open_standard_streams();

// Throws ConfigError where OMP_NUM_THREADS is no number of threads that OpenMP can start: it would
// take another number, or end the program in the middle of its work.
void require_thread_count();

// Parses the arguments and runs what they ask for. Gives the exit code: 2 for wrong arguments, of
// which wrong_arguments() says what is wrong, and else exit_code_of()'s. Beside --help or --version
// no argument is wrong.
//
// What was printed and could not be written is an error like any other, of --help too.
//
// A file that grows beyond the limit on sizes is an error of the call that writes it, as a full
// disk is: the signal would end the program with the file half written.
template <class F>
int run_program(CLI::App& app, int argc, char** argv, F run, const Meant& meant = nullptr,
                const CLI::Option* may_be_empty = nullptr) {
  end_on_uncaught_exceptions();
  std::signal(SIGXFSZ, SIG_IGN);
  open_standard_streams();
  app.set_version_flag("--version", version_text());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const std::string text = text_asked_for(app, error, argc, argv); !text.empty())
      return exit_code_of(app.get_name().c_str(), [&] {
        print(stdout, text);
        finish_output();
      });
    print(stderr, app.get_name() + ": " + wrong_arguments(app, error, meant) +
                      "\nRun with --help for more information.\n");
    return 2;
  }
  return exit_code_of(app.get_name().c_str(), [&] {
    if (const std::string option = empty_option(app, may_be_empty); !option.empty())
      throw ConfigError(option + ": found nothing, expected a value, or the option left out");
    require_thread_count();
    run();
    finish_output();
  });
}

// Throws ConfigError, which names the option, if the file that it names cannot be written: its
// folder is not there or takes no files, or it is a folder itself. For programs that write it last;
// "" is no file.
void require_place_for(const std::string& option, const std::filesystem::path& file);

// The same for files of several options, of which no two may be the same. "-" stands for standard
// output in --json alone.
void require_places_for(
    const std::vector<std::pair<std::string, std::filesystem::path>>& files_of_options);

}  // namespace longshore
