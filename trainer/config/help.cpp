#include "trainer/config/help.h"

#include "offload/policy.h"
#include "trainer/config/config.h"

namespace longshore::trainer {

std::string config_footer() { return config_help() + "\n" + policies_help(); }

std::string policies_help() {
  std::string text = "remat policies:\n";
  for (const offload::PolicyInfo& policy : offload::policies())
    text += "  " + policy.name + ": " + policy.meaning + "\n";
  text += std::string("  ") + offload::kAuto + ": the fastest that fits, see docs/planning.md\n";
  return text;
}

}  // namespace longshore::trainer
