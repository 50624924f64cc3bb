#include "longshore/data/rows/token_file_check.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "longshore/base/progress.h"

namespace longshore::data {

using std::chrono::milliseconds;

namespace {

double bytes_of(const std::vector<std::shared_ptr<const TokenFile>>& files) {
  double bytes = 1;
  for (const std::shared_ptr<const TokenFile>& file : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file->path(), error);
    if (!error) bytes += static_cast<double>(size);
  }
  return bytes;
}

}  // namespace

TokenFileCheck::TokenFileCheck(const std::vector<std::shared_ptr<const TokenFile>>& files)
    : bytes_(bytes_of(files)),
      done_(std::async(std::launch::async, [this, files, stop = stop_.get_token()] {
        for (const std::shared_ptr<const TokenFile>& file : files) file->verify(stop, &bytes_read_);
      })) {}

TokenFileCheck::~TokenFileCheck() { stop_.request_stop(); }  // for which the future then waits

void TokenFileCheck::poll() {
  if (done_.valid() && done_.wait_for(milliseconds(0)) == std::future_status::ready) done_.get();
}

void TokenFileCheck::finish(const std::function<bool()>& stops) {
  if (!done_.valid()) return;
  const Progress progress("verifying token files",
                          [this] { return static_cast<double>(bytes_read_) / bytes_; });
  while (done_.valid() && !stops())
    if (done_.wait_for(milliseconds(100)) == std::future_status::ready) done_.get();
}

}  // namespace longshore::data
