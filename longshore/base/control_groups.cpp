#include "longshore/base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace longshore {
namespace {

namespace fs = std::filesystem;

// Where a hierarchy of groups is mounted.
struct Mount {
  fs::path folder, top;  // `top` is the group that is seen there
};

bool lists(const std::string& list, std::string_view word) {
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, ',');)
    if (one == word) return true;
  return false;
}

// Spaces and the like are written as three octal digits after a backslash.
std::string without_escapes(const std::string& text) {
  auto is_octal = [&](size_t at) { return at < text.size() && '0' <= text[at] && text[at] <= '7'; };
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && is_octal(i + 1) && is_octal(i + 2) && is_octal(i + 3)) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// The last one mounted hides those before it at the same place, and elsewhere is as good.
std::optional<Mount> find_mount(bool is_version_2, std::string_view controller,
                                const fs::path& root) {
  std::optional<Mount> found;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    // number parent device top folder options [optional ...] - type source super_options
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream first(line), second(line.substr(dash + 3));
    std::string number, parent, device, top, folder, type, source, options;
    if (!(first >> number >> parent >> device >> top >> folder)) continue;
    if (!(second >> type >> source >> options)) continue;
    if (is_version_2 ? type == "cgroup2" : type == "cgroup" && lists(options, controller))
      found = Mount{root / fs::path(without_escapes(folder)).relative_path(),
                    fs::path(without_escapes(top))};
  }
  return found;
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
  std::vector<ControlGroup> groups;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // number:controllers:/path, where version 2 has number 0 and names no controller.
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version_2 = controllers.empty();
    if (!is_version_2 && !lists(controllers, controller)) continue;
    const std::optional<Mount> mount = find_mount(is_version_2, controller, root);
    if (!mount) continue;
    fs::path group = fs::path(line.substr(second + 1)).lexically_relative(mount->top);
    if (group == "." || std::ranges::find(group, "..") != group.end()) group.clear();
    for (;; group = group.parent_path()) {
      groups.push_back({group.empty() ? mount->folder : mount->folder / group, is_version_2});
      if (group.empty()) break;
    }
  }
  return groups;
}

}  // namespace longshore
