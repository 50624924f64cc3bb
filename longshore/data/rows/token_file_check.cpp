#include "longshore/data/rows/token_file_check.h"

#include <chrono>
#include <utility>

namespace longshore::data {

using std::chrono::milliseconds;

TokenFileCheck::TokenFileCheck(std::vector<std::shared_ptr<const TokenFile>> files)
    : done_(std::async(std::launch::async, [files = std::move(files), stop = stop_.get_token()] {
        for (const std::shared_ptr<const TokenFile>& file : files) file->verify(stop);
      })) {}

TokenFileCheck::~TokenFileCheck() { stop_.request_stop(); }  // for which the future then waits

void TokenFileCheck::poll() {
  if (done_.valid() && done_.wait_for(milliseconds(0)) == std::future_status::ready) done_.get();
}

void TokenFileCheck::finish(const std::function<bool()>& stops) {
  while (done_.valid() && !stops())
    if (done_.wait_for(milliseconds(100)) == std::future_status::ready) done_.get();
}

}  // namespace longshore::data
