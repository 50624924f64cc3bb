#include "longshore/base/numbered.h"

namespace longshore {

std::string numbered(std::string_view name, int64_t number) {
  std::string with_number(name);
  if (const size_t at = name.find("{}"); at != std::string_view::npos)
    with_number.replace(at, 2, std::to_string(number));
  return with_number;
}

}  // namespace longshore
