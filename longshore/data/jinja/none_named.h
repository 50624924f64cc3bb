// none_named() says that a table of filters or tests lacks a name.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"

namespace longshore::data::jinja {

// Of a map by names: "found no filter named ..., expected one that is there".
template <class Table>
std::string none_named(const char* what, const Table& table, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& each : table) names.push_back(each.first);
  std::ranges::sort(names);
  return std::string("found no ") + what + " named " + excerpt(name) +
         ", expected one that is there" + nearest_help(nearest(name, names));
}

}  // namespace longshore::data::jinja
