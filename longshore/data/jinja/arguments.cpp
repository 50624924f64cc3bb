#include "longshore/data/jinja/arguments.h"

#include <algorithm>
#include <vector>

#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"

namespace longshore::data::jinja {

Bound::Bound(const Arguments& arguments, const std::string& function,
             std::initializer_list<const char*> parameters, size_t required)
    : function_(function) {
  const std::vector<std::string> names(parameters.begin(), parameters.end());
  const size_t given = arguments.positional.size();
  if (given > names.size())
    throw DataError(function + ": found " + plural(static_cast<int64_t>(given), "argument") +
                    ", expected at most " + std::to_string(names.size()));
  for (size_t i = 0; i < given; ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::ranges::find(names, name);
    if (place == names.end())
      throw DataError(function + ": found an argument named " + excerpt(name) +
                      ", expected none of that name" + nearest_help(nearest(name, names)));
    const Value*& own = values_[static_cast<size_t>(place - names.begin())];
    if (own) throw DataError(function + ": found " + name + " twice, expected it once");
    own = &value;
  }
  const auto* missing = std::find(values_.begin(), values_.begin() + required, nullptr);
  if (const auto place = static_cast<size_t>(missing - values_.begin()); place < required)
    throw DataError(function + ": found no argument " + names[place] + ", expected one");
}

int64_t Bound::integer_or(size_t parameter, int64_t other) const {
  return get(parameter) ? as_integer(*get(parameter), ("an argument of " + function_).c_str())
                        : other;
}

int64_t Bound::integer_unless_none(size_t parameter, int64_t other) const {
  return get(parameter) && get(parameter)->is<None>() ? other : integer_or(parameter, other);
}

bool Bound::truth_or(size_t parameter, bool other) const {
  return get(parameter) ? is_true(*get(parameter)) : other;
}

const std::string& Bound::text(size_t parameter) const {
  const Value& value = *get(parameter);
  if (const std::string* own = as_text(value)) return *own;
  require_defined(value);
  throw DataError(function_ + ": found " + type_name(value) + " as an argument, expected a str");
}

}  // namespace longshore::data::jinja
