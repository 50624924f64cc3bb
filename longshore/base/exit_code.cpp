#include "longshore/base/exit_code.h"

#include <chrono>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/patient_output.h"
#include "longshore/base/refusals.h"

namespace longshore {

int code_of(const std::exception& error) {
  const bool is_users = dynamic_cast<const ConfigError*>(&error) ||
                        dynamic_cast<const PlanError*>(&error) || is_out_of_memory(error) ||
                        is_out_of_threads(error);
  return is_users ? 2 : 1;
}

int report_failure(const char* program) {
  try {
    throw;
  } catch (const std::exception& error) {
    print_error(std::string(program) + ": " + refusal_text(error) + "\n", std::chrono::seconds(10));
    return code_of(error);
  }
}

}  // namespace longshore
