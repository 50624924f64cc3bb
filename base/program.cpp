#include "base/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace longshore {
namespace {

std::string nearest_option(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> options;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  return nearest(argument.substr(0, argument.find('=')), options);
}

}  // namespace

std::string version_text() { return "longshore " LONGSHORE_VERSION; }

void open_standard_streams() {
  int number = open("/dev/null", O_RDWR);
  while (0 <= number && number <= STDERR_FILENO) number = open("/dev/null", O_RDWR);
  if (number > STDERR_FILENO) close(number);
}

std::string wrong_arguments(const CLI::App& app, const CLI::ParseError& error, const Meant& meant) {
  const std::vector<std::string> unknown = app.remaining();
  if (unknown.empty()) return error.what();
  const std::string& first = unknown[0];
  std::string close = meant ? meant(first) : "";
  if (close.empty()) close = nearest_option(app, first);
  const CLI::ExtrasError not_expected({unknown.rbegin(), unknown.rend()});  // it reverses the order
  return not_expected.what() + nearest_help(close);
}

void require_place_for(const std::string& option, const std::filesystem::path& file) {
  if (file.empty()) return;
  if (std::filesystem::is_directory(file))
    throw ConfigError(option + ": found the folder " + file.native() +
                      ", expected the name of a file to write");
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw ConfigError(option + ": found " + file.native() + ", but there is no folder " +
                      folder.native());
}

}  // namespace longshore
