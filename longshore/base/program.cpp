#include "longshore/base/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string_view>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"

namespace longshore {
namespace {

std::string nearest_option(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> options;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  return nearest(argument.substr(0, argument.find('=')), options);
}

// One of these names, before what is no option.
bool has_argument(int argc, char** argv, std::initializer_list<std::string_view> names) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i)
    if (std::ranges::find(names, std::string_view(argv[i])) != names.end()) return true;
  return false;
}

}  // namespace

std::string text_asked_for(const CLI::App& app, const CLI::ParseError& error, int argc,
                           char** argv) {
  if (error.get_name() == "CallForHelp" || has_argument(argc, argv, {"-h", "--help"}))
    return app.help();
  if (error.get_name() == "CallForVersion" || has_argument(argc, argv, {"--version"}))
    return version_text() + "\n";
  return "";
}

std::string empty_option(const CLI::App& app, const CLI::Option* may_be_empty) {
  for (const CLI::Option* option : app.get_options())
    if (option != may_be_empty && std::ranges::count(option->results(), "") > 0)
      return option->get_name();
  for (const CLI::App* group : app.get_subcommands({}))
    if (std::string found = empty_option(*group, may_be_empty); !found.empty()) return found;
  return "";
}

void open_standard_streams() {
  for (int number = 0; number <= STDERR_FILENO; ++number)
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void require_thread_count() {
  constexpr int kMost = 1024;  // what an affinity mask has room for
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr) return;
  std::string_view rest = text;
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest.empty()) return;
  int count = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
  // "4,2" has numbers for nested loops as well.
  const bool is_number = error == std::errc() && (*end == '\0' || *end == ' ' || *end == ',');
  if (!is_number || count < 1 || count > kMost)
    throw ConfigError("OMP_NUM_THREADS: found " + excerpt(rest) + ", expected 1 to " +
                      std::to_string(kMost));
}

std::string wrong_arguments(const CLI::App& app, const CLI::ParseError& error, const Meant& meant) {
  std::vector<std::string> unknown = app.remaining();
  if (unknown.empty()) return library_message(error.what());
  const std::string first = unknown[0];
  std::string close = meant ? meant(first) : "";
  if (close.empty()) close = nearest_option(app, first);
  constexpr size_t kMostNamed = 20;
  if (unknown.size() > kMostNamed) unknown.resize(kMostNamed);
  for (std::string& argument : unknown) argument = excerpt(argument);
  const CLI::ExtrasError not_expected({unknown.rbegin(), unknown.rend()});  // it reverses the order
  return not_expected.what() + nearest_help(close);
}

void require_place_for(const std::string& option, const std::filesystem::path& file) {
  if (file.empty()) return;
  if (std::filesystem::is_directory(file))
    throw ConfigError(option + ": found the folder " + path_text(file) +
                      ", expected the name of a file to write");
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw ConfigError(option + ": found " + path_text(file) + ", but there is no folder " +
                      path_text(folder));
  // A device, such as /dev/null, is written itself.
  const bool is_new = !std::filesystem::exists(file) || std::filesystem::is_regular_file(file);
  if (is_new && access(folder.c_str(), W_OK | X_OK) != 0)
    throw ConfigError(option + ": found " + path_text(file) +
                      ", which cannot be written: " + std::strerror(errno));
}

void require_places_for(
    const std::vector<std::pair<std::string, std::filesystem::path>>& files_of_options) {
  std::map<std::filesystem::path, std::string> taken;
  for (const auto& [option, file] : files_of_options) {
    if (file.empty()) continue;
    if (file == "-" && option == "--json") continue;
    if (file == "-")
      throw ConfigError(option +
                        ": found -, expected the name of a file: --json alone has it for "
                        "the standard output");
    require_place_for(option, file);
    const std::filesystem::path place =
        std::filesystem::weakly_canonical(std::filesystem::absolute(file));
    const auto [other, is_new] = taken.emplace(place, option);
    if (!is_new)
      throw ConfigError(option + ": found " + path_text(file) + ", which " + other->second +
                        " writes, expected another file");
  }
}

}  // namespace longshore
