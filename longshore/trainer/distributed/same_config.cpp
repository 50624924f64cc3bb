#include "longshore/trainer/distributed/same_config.h"

#include <fmt/format.h>

#include <sstream>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/trainer/config/config_text.h"

namespace longshore::trainer {

void require_same_config(const Config& config, models::Target target, World& world) {
  const std::vector<std::string> all =
      world.gather(fmt::format("{}device: {}\n", resolved_text(config), name(target)));
  for (int64_t rank = 1; rank < world.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::istringstream first(all[0]), other(all[rank]);
    std::string of_first, of_rank;
    while (std::getline(first, of_first) && std::getline(other, of_rank) && of_first == of_rank) {
    }
    throw ConfigError(fmt::format("rank {} has another config than rank 0: '{}' instead of '{}'",
                                  rank, excerpt(of_rank), excerpt(of_first)));
  }
}

}  // namespace longshore::trainer
