// Compares token files with the hashes that their headers hold, while they are in use.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <vector>

#include "longshore/data/rows/token_file.h"

namespace longshore::data {

// Reads the files one after the other on a thread of its own, each at the speed of its disk.
class TokenFileCheck {
 public:
  explicit TokenFileCheck(const std::vector<std::shared_ptr<const TokenFile>>& files);
  ~TokenFileCheck();  // does not wait for the rest

  // Throws TokenFile::verify's DataError where a file was found to be changed.
  void poll();
  // The same once all files are read, or when `stops`, asked several times a second, says so. Shows
  // the progress.
  void finish(const std::function<bool()>& stops);

 private:
  std::atomic<int64_t> bytes_read_ = 0;
  double bytes_ = 1;  // of all files
  std::stop_source stop_;
  std::future<void> done_;
};

}  // namespace longshore::data
