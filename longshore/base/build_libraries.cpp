#include "longshore/base/build.h"

namespace longshore {

const char* build_libraries() { return LONGSHORE_LIBRARIES; }

}  // namespace longshore
