// control_groups() finds the folders of the control groups that bound this process.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace longshore {

struct ControlGroup {
  std::filesystem::path folder;  // of its files
  bool is_version_2 = false;
};

// The process's group of that controller ("cpu", "memory") in each version of control groups that
// is mounted, followed by the groups above it as far as they can be seen. `root` is where the
// file system with /proc begins. A group outside of what is mounted, as a container may be told
// of, counts as the mounted one. Empty where nothing is said.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

}  // namespace longshore
