#include "trainer/distributed/same_config.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"

namespace longshore::trainer {

void require_same_config(const Config& config, models::Target target, World& world) {
  const std::vector<std::string> all = world.gather(fmt::format(
      "{}device: {}\n", resolved_text(config), models::is_cuda(target) ? "cuda" : "cpu"));
  for (int64_t rank = 1; rank < world.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::istringstream first(all[0]), other(all[rank]);
    std::string here, there;
    while (std::getline(first, here) && std::getline(other, there) && here == there) {
    }
    throw ConfigError(fmt::format("rank {} has another config than rank 0: '{}' there, '{}' here",
                                  rank, there, here));
  }
}

}  // namespace longshore::trainer
